#!/usr/bin/env bash
# Fails on a shell script that does not parse or that shellcheck warns about.
set -euo pipefail
cd "$(dirname "$0")/../.."
mapfile -t scripts < <(find .ci client deploy tests -type f -size -64k \
  -exec sh -c 'head -n 1 "$1" | grep -qE "^#!.*\b(ba)?sh$"' _ {} \; -print | sort)
[ ${#scripts[@]} -gt 0 ] || { echo "no scripts found"; exit 1; }
for script in "${scripts[@]}"; do
  bash -n "$script"
done
shellcheck --severity=warning "${scripts[@]}"
echo "${#scripts[@]} scripts checked"
