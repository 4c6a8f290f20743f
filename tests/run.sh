#!/usr/bin/env bash
# Builds Tenure three ways, runs every test and every lint, and ends with one line that counts them.
#
#   tests/run.sh [--skip-install] [--only STAGE]... [--build-dir DIR]
#
#   release  everything, with g++ and optimisation
#   lint     layers, names, formats, clang-tidy, protobuf files, shell scripts
#   python   the Python client's tests, against the release build
#   asan     everything, with clang, under AddressSanitizer and LeakSanitizer
#   tsan     the core and the handle socket, with clang, under ThreadSanitizer
#
# --skip-install leaves the machine's packages as they are. --build-dir is `build` unless given.
set -euo pipefail

usage() { sed -n '2,12p' "$0" | cut -c3-; exit 2; }

root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build
install=yes
stages=()
while [ $# -gt 0 ]; do
  case "$1" in
    --skip-install) install= ;;
    --only) stages+=("${2:?--only needs a stage}"); shift ;;
    --build-dir) mkdir -p "${2:?--build-dir needs a folder}"; build=$(cd "$2" && pwd); shift ;;
    *) usage ;;
  esac
  shift
done
[ ${#stages[@]} -gt 0 ] || stages=(release lint python asan tsan)
for stage in "${stages[@]}"; do
  [[ " release lint python asan tsan " == *" $stage "* ]] || usage
done

[ -z "$install" ] || "$root/deploy/install_packages.sh" --tests

# Debian's own Python sees Debian's Python packages; another one in the PATH may not.
export PYTHON=${PYTHON:-/usr/bin/python3}
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:check_initialization_order=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=$root/tests/tsan.supp
jobs=$(nproc)
reports=$build/reports
mkdir -p "$reports"
rm -f "$reports"/*
cd "$root"

# The sanitizers' shadow memory wants a predictable address space.
fixed_addresses=()
setarch --addr-no-randomize true 2>/dev/null && fixed_addresses=(setarch --addr-no-randomize)

# build_preset PRESET [TARGET]: configures on first use, then builds.
build_preset() {
  local target=${2:-all}
  [ -f "$build/$1/build.ninja" ] || CXX=g++ cmake --preset "$1" -B "$build/$1" || return
  cmake --build "$build/$1" --target "$target" -j "$jobs"
}

run_ctest() {
  local stage=$1 preset=$2
  shift 2
  # Half as many again as there are processors, since many tests wait for something to happen.
  "${fixed_addresses[@]}" ctest --test-dir "$build/$preset" -j $((jobs + jobs / 2)) --output-on-failure --no-tests=error \
    --output-junit "$reports/$stage.xml" "$@"
}

run_pytest() {
  [ -d client/python/tests ] || { echo "client/python/tests is missing"; return 1; }
  TENURE_BIN_DIR=$build/release/bin PYTHONPATH=$root/client/python \
    "$PYTHON" -m pytest -q -p no:cacheprovider --junitxml="$reports/python.xml" client/python/tests
}

test_stage() {
  case "$1" in
    release) run_ctest release release -LE lint ;;
    lint) run_ctest lint release -L lint ;;
    python) run_pytest ;;
    asan) run_ctest asan asan ;;
    tsan) run_ctest tsan tsan -L tsan ;;
  esac
}

compiler_of() {
  local path
  path=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$build/$1/CMakeCache.txt" 2>/dev/null) || true
  [ -n "$path" ] && echo "${path##*/} $("$path" -dumpfullversion -dumpversion)"
}

# Without it everything but the CUDA backend is built and tested.
deploy/fetch_cuda_headers.sh "$build/cuda-headers" || true

for stage in "${stages[@]}"; do
  preset=$stage target=all sanitizer=-
  case "$stage" in
    lint | python) preset=release ;;
    asan) sanitizer=address ;;
    tsan) sanitizer=thread target=tsan_tests ;;
  esac
  echo "== $stage"
  status=0 start=$SECONDS
  build_preset "$preset" "$target" || status=$?
  built=$SECONDS
  [ "$status" != 0 ] || test_stage "$stage" || status=$?
  compiler=$(compiler_of "$preset" || echo unknown)
  printf '%s\t' "$stage" "$compiler" "$sanitizer" $((built - start)) $((SECONDS - built)) "$status" >>"$reports/stages.tsv"
  echo "$reports/$stage.xml" >>"$reports/stages.tsv"
done

"$PYTHON" "$root/tests/summarize.py" "$reports/stages.tsv"
