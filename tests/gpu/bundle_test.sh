#!/usr/bin/env bash
# Bundles the trial, takes the bundle elsewhere and runs parts of it there: over the emulated driver, and
# without any.
#
#   tests/gpu/bundle_test.sh BUILD_DIR
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$here/bundle.sh" --build-dir "$build" "$work/bundle"
mv "$work/bundle" "$work/elsewhere"
mkdir "$work/machine"
run() { env -i PATH=/usr/bin:/bin "$@"; }

run LD_LIBRARY_PATH="$build/emulated_driver" TENURE_EMULATED_GPU="$work/machine" \
  "$work/elsewhere/run.sh" --mib 16 --json "$work/trial.json" contract lone-fd give-back conformance
grep -q '"device": "Tenure Emulated GPU"' "$work/trial.json"

if command -v nvidia-smi >/dev/null; then exit 0; fi
status=0
run "$work/elsewhere/run.sh" >"$work/out" 2>"$work/err" || status=$?
[ "$status" = 77 ] || { echo "ends with $status without a GPU"; exit 1; }
[ "$(cat "$work/out" "$work/err" | wc -l)" = 1 ] || { cat "$work/out" "$work/err"; exit 1; }
