#!/usr/bin/env bash
# Runs clang-tidy over what is shipped; the tests would take it three times as long. Takes the build
# folder whose compile_commands.json tells how each file is compiled.
#
#   tests/lint/clang_tidy.sh BUILD_DIR [FILE_PATTERN]
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$1
pattern=${2:-"^$root/(core|server|client)/.*\\.cc$"}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if nice run-clang-tidy -quiet -p "$build" -j "$(nproc)" \
  -header-filter="^$root/(core|server|client|tests)/" "$pattern" >"$log" 2>&1; then
  echo "$(grep -c '^clang-tidy' "$log") files checked"
else
  # Without colours, headings and counts.
  sed -E 's/\x1b\[[0-9;]*m//g; /^clang-tidy|warnings? generated|^Suppressed|^Use -/d' "$log"
  exit 1
fi
