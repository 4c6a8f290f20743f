#!/usr/bin/env bash
# Runs a test with what requirements.txt names, installed from PyPI into a virtual environment under BUILD_DIR.
#
#   tests/deploy/venv.sh BUILD_DIR TEST [ARGUMENT]...
#
# Ends with 77 (skipped) where PyPI cannot be reached or has nothing for this machine.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
venv=$1/deploy-venv
shift
wanted=$(sha256sum <"$here/requirements.txt")
exec 9>"$venv.lock"
flock 9
if [ "$(cat "$venv/installed" 2>/dev/null)" != "$wanted" ]; then
  rm -rf "$venv"
  "${PYTHON:-python3}" -m venv "$venv"
  if ! "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt" >"$venv/log" 2>&1; then
    if grep -qiE 'from versions: none|no matching distribution|connection|timed out|resolve|proxy' "$venv/log"; then
      echo "SKIP: PyPI, which has what this test needs, cannot be reached"
      exit 77
    fi
    cat "$venv/log"
    exit 1
  fi
  echo "$wanted" >"$venv/installed"
fi
flock -u 9
PATH="$venv/bin:$PATH" exec "$venv/bin/python" "$@"
