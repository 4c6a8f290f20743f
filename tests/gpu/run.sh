#!/usr/bin/env bash
# Asks a machine with an NVIDIA GPU what Tenure rests on and what it costs there, in at most five minutes:
# prints a table and writes a JSON object, see trial/report.h. Needs no network and no installation.
#
#   tests/gpu/run.sh [--bundle FOLDER] [--json FILE] [--seconds N] [--mib N] [PART...]
#
# FOLDER was made by bundle.sh. Without it: the folder of this script if it is a bundle, else
# build/gpu-bundle, else what a build here makes. `--mib` is the size of each model, 1024 unless given; parts
# are named in the table. Ends with 0 if every check holds, 1 if one does not, 77 if there is no GPU.
set -euo pipefail

usage() { sed -n '2,10p' "$0" | cut -c3-; exit 2; }

here=$(cd "$(dirname "$0")" && pwd)
bundle=
seconds=280
arguments=()
while [ $# -gt 0 ]; do
  case $1 in
    --bundle) [ $# -ge 2 ] || usage; bundle=$(cd "$2" && pwd); shift 2 ;;
    --seconds) [ $# -ge 2 ] || usage; seconds=$2; shift 2 ;;
    --json | --mib) [ $# -ge 2 ] || usage; arguments+=("$1" "$2"); shift 2 ;;
    -*) usage ;;
    *) arguments+=("$1"); shift ;;
  esac
done

if [ -z "$bundle" ]; then
  for each in "$here" "$here/../../build/gpu-bundle"; do
    if [ -z "$bundle" ] && [ -f "$each/glibc" ]; then bundle=$(cd "$each" && pwd); fi
  done
fi
# python3 with PyTorch is the machine's own, and so are its libraries.
export TENURE_SYSTEM_LIBRARY_PATH=${LD_LIBRARY_PATH-}
# as_new_as VERSION: whether this machine's glibc is.
as_new_as() { printf '%s\n' "$1" "$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)" | sort -VC; }
if [ -n "$bundle" ]; then
  bin=$bundle/bin
  if ! as_new_as "$(cat "$bundle/glibc")"; then
    echo "the bundle needs glibc $(cat "$bundle/glibc"), and this machine's is older: build one here" >&2
    exit 1
  fi
  libraries=$bundle/lib
  # A machine with an older glibc uses its own libstdc++.
  if as_new_as "$(cat "$bundle/lib/compiler/glibc")"; then libraries+=:$bundle/lib/compiler; fi
  export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
else
  root=$(cd "$here/../.." && pwd)
  command -v cmake >/dev/null || { echo "there is no bundle, and no cmake to build with" >&2; exit 1; }
  {
    [ -f "$root/build/release/build.ninja" ] || (cd "$root" && CXX=g++ cmake --preset release)
    cmake --build "$root/build/release" --target gpu_trial -j "$(nproc)"
  } >&2
  bin=$root/build/release/bin
fi

# Models lie in memory where there is plenty, so that no disk is measured.
parent=${TMPDIR:-/tmp}
free_kib=$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1 || true)
if [ "${free_kib:-0}" -gt $((16 << 20)) ]; then parent=/dev/shm; fi
TMPDIR=$(mktemp -d "$parent/gpu-trial-XXXXXX")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT

if command -v nvidia-smi >/dev/null; then
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || true
fi
# The program keeps the time itself, and ends what it started when it is told to stop; this is for a driver
# that does not let it.
timeout --kill-after=10 $((seconds + 15)) "$bin/gpu-trial" --seconds "$seconds" "${arguments[@]}" &
trial=$!
trap 'kill "$trial"' INT TERM HUP
status=0
wait "$trial" || status=$?
# A signal interrupts the first wait.
while kill -0 "$trial" 2>/dev/null; do
  status=0
  wait "$trial" || status=$?
done
exit "$status"
