#!/usr/bin/env bash
# Names the C++ files that clang-format would write otherwise, and fails if there are any.
# To mend them: tests/lint/format.sh -i
set -euo pipefail
cd "$(dirname "$0")/../.."
mapfile -t sources < <(find proto core server client tests \( -name '*.h' -o -name '*.cc' \) | sort)
[ "${1:-}" = -i ] && exec clang-format -i "${sources[@]}"
status=0
for source in "${sources[@]}"; do
  clang-format --dry-run -Werror "$source" 2>/dev/null || { echo "$source"; status=1; }
done
exit "$status"
