#!/usr/bin/env bash
# Builds what the trial on a GPU needs and collects it, with every shared library but those of glibc and the
# driver, in one folder of at most 60 MiB: `FOLDER/run.sh` then runs on any x86-64 Linux with a glibc as new as
# the one named at the end.
#
#   tests/gpu/bundle.sh [--build-dir DIR] FOLDER
#
# DIR is a build folder that cmake has configured; without it, build/release.
set -euo pipefail

usage() { sed -n '2,9p' "$0" | cut -c3-; exit 2; }

root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build/release
if [ "${1:-}" = --build-dir ]; then
  [ $# -ge 2 ] || usage
  build=$2
  shift 2
fi
[ $# = 1 ] || usage
folder=$1
most_mib=60
targets=(gpu_trial tenured tenurectl tenure-verify make_models tenure_cuda_device_test cuda_conformance)
programs=(gpu-trial tenured tenurectl tenure-verify make-models tenure_cuda_device_test cuda-conformance)

{
  [ -f "$build/build.ninja" ] || (cd "$root" && CXX=g++ cmake --preset release)
  cmake --build "$build" --target "${targets[@]}" -j "${JOBS:-$(nproc)}"
} >&2

# Nothing of another bundle stays, and nothing that is no bundle goes.
if [ -d "$folder" ] && [ -n "$(ls -A "$folder")" ]; then
  [ -f "$folder/glibc" ] || { echo "$folder is not empty, and no bundle" >&2; exit 1; }
  rm -rf "$folder"
fi
mkdir -p "$folder/bin" "$folder/lib/compiler"
for program in "${programs[@]}"; do
  install -m 755 -s "$build/bin/$program" "$folder/bin/$program"
done
cp "$root/tests/gpu/trial/torch_load.py" "$folder/bin/"
install -m 755 "$root/tests/gpu/run.sh" "$folder/run.sh"

# What glibc consists of comes from the machine, as does the driver. The compiler's own libraries may want a
# newer glibc than the rest: they stand apart, for machines whose own are as new.
machines_own='^(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|anl|nss_.*|cuda))\.so'
ldd "${programs[@]/#/$build/bin/}" | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' | sort -u |
  while read -r name path; do
    case $name in
      libstdc++.* | libgcc_s.*) install -m 644 -s "$path" "$folder/lib/compiler/$name" ;;
      *) [[ $name =~ $machines_own ]] || install -m 644 -s "$path" "$folder/lib/$name" ;;
    esac
  done

bundled=("${programs[@]/#/$folder/bin/}")
missing=$(LD_LIBRARY_PATH=$folder/lib:$folder/lib/compiler ldd "${bundled[@]}" | grep 'not found' || true)
[ -z "$missing" ] || { echo "the bundle lacks: $missing" >&2; exit 1; }
newest_glibc() { objdump -T "$@" | grep -o 'GLIBC_2\.[0-9]*' | sort -Vu | tail -n 1 | cut -d_ -f2; }
newest_glibc "${bundled[@]}" "$folder"/lib/*.so* >"$folder/glibc"
newest_glibc "$folder"/lib/compiler/*.so* >"$folder/lib/compiler/glibc"
mib=$(du -sm --apparent-size "$folder" | cut -f1)
[ "$mib" -le $most_mib ] || { echo "$folder has $mib MiB, more than $most_mib" >&2; exit 1; }
echo "$folder: $mib MiB, for glibc $(cat "$folder/glibc") or newer"
