#!/usr/bin/env bash
# Builds the programs without their tests, and puts what an image needs of them into FOLDER/bin and FOLDER/lib.
#
#   deploy/docker/build.sh FOLDER
set -euo pipefail
[ $# = 1 ] || { sed -n '2,4p' "$0" | cut -c3-; exit 2; }
folder=$1
cd "$(dirname "$0")/../.."
cmake --preset release -DTENURE_BUILD_TESTS=OFF
cmake --build build/release
staging=$(mktemp -d)
trap 'rm -rf "$staging"' EXIT
cmake --install build/release --prefix "$staging" --strip
mkdir -p "$folder/bin" "$folder/lib"
cp "$staging"/bin/* "$folder/bin/"
find "$staging" -name 'libtenure_client.so.*' -exec cp --no-dereference {} "$folder/lib/" \;
