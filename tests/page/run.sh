#!/usr/bin/env bash
# Tests the map page in a real browser: Debian's chromium, driven by PyPI's playwright, which goes into
# a virtual environment under BUILD_DIR. Screenshots are left in BUILD_DIR/page-screenshots.
#
#   tests/page/run.sh BUILD_DIR
#
# Ends with 77 (skipped) where one of the two cannot be had.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$1
venv=$build/page-venv
log=$build/page-install.log

skip() {
  echo "SKIP: $1"
  exit 77
}

if ! command -v chromium >/dev/null; then
  [ "$(id -u)" = 0 ] || skip "there is no chromium, and only root can install it"
  { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends chromium; } \
    >"$log" 2>&1 || skip "chromium cannot be installed: $(tail -n 1 "$log")"
fi
if ! "$venv/bin/python" -c 'import playwright' 2>/dev/null; then
  [ -x "$venv/bin/pip" ] || "${PYTHON:-python3}" -m venv "$venv"
  if ! "$venv/bin/pip" install --quiet --disable-pip-version-check playwright==1.65.2 >"$log" 2>&1; then
    if grep -qiE 'from versions: none|connection|timed out|resolve|proxy' "$log"; then
      skip "PyPI, which has playwright, cannot be reached"
    fi
    cat "$log"
    exit 1
  fi
fi
export TENURE_BIN_DIR=$build/bin TENURE_SCREENSHOTS=$build/page-screenshots CHROMIUM
CHROMIUM=$(command -v chromium)
mkdir -p "$TENURE_SCREENSHOTS"
exec "$venv/bin/python" "$here/map_page_test.py"
