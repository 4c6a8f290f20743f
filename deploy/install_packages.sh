#!/usr/bin/env bash
# Installs what Tenure needs from packages.txt, and nothing that is there already.
#
#   deploy/install_packages.sh [--tests | --runtime]
#
# On Debian 12 it installs with apt-get, as root or through sudo; --tests adds what only the tests
# need, --runtime installs only what running takes. On any other system it installs nothing: it names
# what is missing and fails if anything is.
set -euo pipefail

list="$(dirname "${BASH_SOURCE[0]}")/packages.txt"
needs=build
case "${1:-}" in
  '') ;;
  --tests) needs='build|test' ;;
  --runtime) needs=run ;;
  *) sed -n '2,8p' "$0" | cut -c3-; exit 2 ;;
esac

# wanted: the lines of packages.txt that this call is about, as PACKAGE PROBE.
wanted() { awk -v needs="^($needs)\$" '!/^#/ && NF == 3 && $2 ~ needs { print $1, $3 }' "$list"; }

installed() {
  [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# present PROBE: whether a command, a header or a Python module can be found.
present() {
  local name=${1#*:}
  case "$1" in
    command:*) command -v "$name" >/dev/null ;;
    header:*) echo "#include <$name>" | "${CXX:-c++}" -E -x c++ - >/dev/null 2>&1 ;;
    python:*) python3 -c "import $name" >/dev/null 2>&1 ;;
    -) true ;;
  esac
}

on_debian_12() {
  # shellcheck source=/dev/null
  [ -r /etc/os-release ] && (. /etc/os-release && [ "${ID:-}${VERSION_ID:-}" = debian12 ])
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

missing=()
if ! on_debian_12; then
  while read -r package probe; do
    present "$probe" || missing+=("$probe ($package)")
  done < <(wanted)
  [ ${#missing[@]} = 0 ] && exit 0
  echo "This is not Debian 12, so nothing is installed. Missing, with the package that Debian has it in:" >&2
  printf '  %s\n' "${missing[@]}" >&2
  exit 1
fi

while read -r package _; do
  installed "$package" || missing+=("$package")
done < <(wanted)
[ ${#missing[@]} = 0 ] && exit 0
if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
  echo "Run as root or install sudo; missing: ${missing[*]}" >&2
  exit 1
fi

echo "Installing ${#missing[@]} packages: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { as_root apt-get update -qq &&
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
# The tests want Prometheus's programs, not a service of it that they did not start.
if [[ " ${missing[*]} " == *' prometheus '* ]] && [ -d /run/systemd/system ]; then
  as_root systemctl disable --quiet --now prometheus
fi
