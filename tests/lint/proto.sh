#!/usr/bin/env bash
# Runs buf's lint over our protobuf files, with the exceptions in proto/buf.yaml. Uses buf where it
# is installed, else installs it from PyPI into a virtual environment under BUILD_DIR.
#
#   tests/lint/proto.sh BUILD_DIR
#
# Ends with 77 (skipped) where PyPI cannot be reached.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
venv=$1/lint-venv
buf=$(command -v buf || echo "$venv/bin/buf")
if [ ! -x "$buf" ]; then
  [ -x "$venv/bin/pip" ] || "${PYTHON:-python3}" -m venv "$venv"
  if ! "$venv/bin/pip" install --quiet --disable-pip-version-check buf-bin==1.66.1 >"$venv/log" 2>&1; then
    if grep -qiE 'from versions: none|connection|timed out|resolve|proxy' "$venv/log"; then
      echo "SKIP: PyPI, which has buf, cannot be reached"
      exit 77
    fi
    cat "$venv/log"
    exit 1
  fi
fi
cd "$root/proto"
"$buf" lint
echo "linted by buf $("$buf" --version)"
