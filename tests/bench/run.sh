#!/usr/bin/env bash
# Builds what is measured and runs one benchmark.
#
#   tests/bench/run.sh switch [--json FILE] [--rounds N] [--mib N]
#   tests/bench/run.sh faults [--json FILE] [--rounds N]
#   tests/bench/run.sh buffers [--json FILE] [--rounds N]
#   tests/bench/run.sh planner [--json FILE] [--longest 1s]
#   tests/bench/run.sh slots [--json FILE] [--rounds N]
#
# A benchmark prints a table with the goals it reached and missed, and writes one flat JSON object: a key is
# a number or {"p50": ..., "p90": ..., "p99": ...}; its ending names the unit.
set -euo pipefail

usage() { sed -n '2,11p' "$0" | cut -c3-; exit 2; }

[ $# -ge 1 ] || usage
benchmark=$1
shift
case $benchmark in switch | faults | buffers | planner | slots) ;; *) usage ;; esac

root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build/release
{
  [ -f "$build/build.ninja" ] || (cd "$root" && CXX=g++ cmake --preset release)
  cmake --build "$build" --target "${benchmark}_bench" -j "$(nproc)"
} >&2
exec "$build/bin/$benchmark-bench" "$@"
