#!/usr/bin/env bash
# Installs the build in the given folder somewhere, and builds and runs another project against it.
set -euo pipefail
build=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/installed" >"$work/log"
if grep -rlE 'grpc|protobuf' "$work/installed/include"; then
  echo "a public header names gRPC or protobuf"
  exit 1
fi
cmake -G Ninja -S "$here/foreign_project" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/installed" >>"$work/log"
cmake --build "$work/build" >>"$work/log" || { cat "$work/log"; exit 1; }

status=0
answer=$(TENURE_DIR=$work/nowhere "$work/build/foreign") || status=$?
echo "without a daemon: $answer, exit $status"
[ "$status" = 3 ] && [ "$answer" = DAEMON_UNREACHABLE ]
"$work/installed/bin/tenured" --version
