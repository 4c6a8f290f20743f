#!/usr/bin/env bash
# Brings NVIDIA's driver header, cuda.h, to a machine without a CUDA toolkit, out of NVIDIA's package on
# PyPI: with it Tenure is built with its CUDA backend. The driver itself is not needed to build.
#
#   deploy/fetch_cuda_headers.sh FOLDER
#
# Does nothing if a toolkit is installed or FOLDER has the header. Fails, and says so, if PyPI does not
# have it to give; Tenure is then built without that backend.
set -euo pipefail

[ $# = 1 ] || { sed -n '2,8p' "$0" | cut -c3-; exit 2; }
folder=$1
package='nvidia-cuda-runtime>=13,<14'

[ ! -f "$folder/cuda.h" ] || exit 0
if command -v nvcc >/dev/null || [ -f "${CUDA_PATH:-/usr/local/cuda}/include/cuda.h" ]; then exit 0; fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! ${PYTHON:-python3} -m pip download --quiet --no-deps --only-binary=:all: --dest "$work" "$package" >"$work/log" 2>&1; then
  tail -n 2 "$work/log" >&2
  echo "PyPI gives no $package, so the CUDA backend is not built" >&2
  exit 1
fi
${PYTHON:-python3} -m zipfile -e "$work"/*.whl "$work/wheel"
header=$(find "$work/wheel" -name cuda.h -print -quit)
[ -n "$header" ] || { echo "$package has no cuda.h, so the CUDA backend is not built" >&2; exit 1; }
mkdir -p "$folder"
cp "$header" "$folder/cuda.h.partial"
mv "$folder/cuda.h.partial" "$folder/cuda.h"
echo "NVIDIA's cuda.h is in $folder"
