#!/usr/bin/env bash
# Builds Tenure, starts it on this machine's own memory, and shows with real models and a client what
# it does: load, lease, verify, revive, adopt, refuse, give back. Each step checks what it promises.
#
#   deploy/quickstart.sh [--skip-install] [--build-dir DIR] [--keep]
#
#   --skip-install   leave the machine's packages as they are
#   --build-dir DIR  where to build; build/release unless given
#   --keep           leave the daemon and its models there, and say how to talk to it
#   --help           print this
#
# Wants Debian 12 and root or sudo for what is not installed yet; without --keep it leaves nothing
# behind but the packages and the build. It may be run again, also beside a daemon that was kept.
set -euo pipefail
export LC_ALL=C
unset TENURE_DIR

usage() { sed -n '2,13p' "$0" | cut -c3-; }

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/release
install=yes
keep=
while [ $# -gt 0 ]; do
  case "$1" in
    --skip-install) install= ;;
    --build-dir)
      [ -n "${2:-}" ] || { echo "--build-dir needs a folder" >&2; exit 2; }
      mkdir -p "$2"
      build=$(cd "$2" && pwd)
      shift
      ;;
    --keep) keep=yes ;;
    --help | -h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
bin=$build/bin

work=
pid=
kept=
checks=0

# Ends the daemon, by force if it takes longer than its drain_timeout allows. Its exit status.
stop_daemon() {
  local stopping=$pid give_up=$((SECONDS + 10))
  pid=
  kill -TERM "$stopping" 2>/dev/null || true
  while kill -0 "$stopping" 2>/dev/null; do
    if [ $SECONDS -ge $give_up ]; then kill -KILL "$stopping" 2>/dev/null || true; fi
    sleep 0.02
  done
  wait "$stopping"
}

clean_up() {
  local status=$?
  trap - EXIT
  [ -z "$kept" ] || exit "$status"
  [ -z "$pid" ] || stop_daemon || true
  [ -z "$work" ] || rm -rf "$work"
  exit "$status"
}
trap clean_up EXIT
trap 'echo "quickstart failed in line $LINENO" >&2' ERR
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

fail() {
  printf '\nquickstart failed: %s\n' "$1" >&2
  if [ -n "$work" ] && [ -s "$work/tenured.log" ]; then
    echo "The end of tenured's log:" >&2
    tail -n 20 "$work/tenured.log" | sed 's/^/  /' >&2
  fi
  exit 1
}

say() { printf '%-10s %s\n' "$1" "$2"; }

# expect WHAT ACTUAL EXPECTED
expect() {
  checks=$((checks + 1))
  [ "$2" = "$3" ] || fail "$1: expected $3, but it is ${2:-nothing}"
}

# quietly WHAT COMMAND...: shows what the command printed only if it fails.
quietly() {
  local what=$1
  shift
  "$@" >"$work/output" 2>&1 || { cat "$work/output" >&2; fail "$what"; }
}

# pick KEY...: values out of the JSON on stdin, by dotted keys, in one line.
pick() {
  python3 -c '
import json, sys
document = json.load(sys.stdin)
def value(key):
    found = document
    for part in key.split("."):
        found = found[int(part)] if part.isdigit() else found[part]
    return str(found)
print(*map(value, sys.argv[1:]))' "$@"
}

human() {
  awk -v bytes="$1" 'BEGIN {
    split("B KiB MiB GiB TiB", unit); n = 1
    while (bytes >= 999.5 && n < 5) { bytes /= 1024; n++ }
    printf (bytes == int(bytes) ? "%d %s" : "%.2f %s"), bytes, unit[n] }'
}

# took NANOSECONDS
took() {
  awk -v s="$(($1 / 1000))e-6" 'BEGIN {
    if (s < 1e-3) printf "%d us", s * 1e6; else if (s < 1) printf "%.1f ms", s * 1e3; else printf "%.2f s", s }'
}

now_ns() { echo $((${EPOCHREALTIME/./} * 1000)); }

ctl() { "$bin/tenurectl" --directory "$work/run" "$@"; }

# ctl_json ARGUMENTS...: the reply is in $reply.
ctl_json() {
  reply=$(ctl --json "$@" 2>"$work/error") || { cat "$work/error" >&2; fail "tenurectl $* was refused"; }
}

# arena KEY...: values out of the ledger, or of the device when they begin with a dot.
arena() {
  local keys=() key
  for key in "$@"; do
    case "$key" in .*) keys+=("devices.0$key") ;; *) keys+=("devices.0.arenas.0.$key") ;; esac
  done
  ctl_json arenas
  pick "${keys[@]}" <<<"$reply"
}

# How many segments the backend was asked for so far.
driver_allocations() { arena .backend_counters.segments_created; }

# until_true WHAT COMMAND...: asks again until the command succeeds; 60 seconds are enough for all here.
until_true() {
  local what=$1 give_up=$((SECONDS + 60))
  shift
  until "$@"; do
    [ -z "$pid" ] || kill -0 "$pid" 2>/dev/null || fail "tenured ended while waiting: $what"
    [ $SECONDS -lt $give_up ] || fail "not so after 60 s: $what"
    sleep 0.05
  done
}

serving() { ctl health >/dev/null 2>&1; }

# start_daemon CONFIG
start_daemon() {
  # A session of its own: closing the terminal does not end a daemon that is kept.
  setsid "$bin/tenured" --config "$1" --directory "$work/run" --model-root "demo=$work/models" \
    --metrics-address 127.0.0.1:0 </dev/null >"$work/tenured.log" 2>&1 &
  pid=$!
  until_true "tenured is ready" serving
}

# --- Packages and programs

if [ -n "$install" ]; then
  "$root/deploy/install_packages.sh"
  say Packages "all there"
else
  say Packages "left as they are"
fi
for program in cmake ninja curl python3; do
  command -v "$program" >/dev/null || fail "$program is missing; run without --skip-install"
done

work=$(mktemp -d "${TMPDIR:-/tmp}/tenure.XXXXXX")
mkdir "$work/models"

[ -z "$install" ] || "$root/deploy/fetch_cuda_headers.sh" "$build/cuda-headers" || true
targets=(tenured tenurectl tenure-verify make_models)
cd "$root"
if [ ! -f "$build/build.ninja" ]; then
  CXX=${CXX:-g++} quietly "cmake could not configure the build" cmake --preset release -B "$build"
fi
if ninja -C "$build" -n "${targets[@]}" 2>&1 | grep -q 'no work to do'; then
  say Programs "built already, in $bin"
else
  say Programs "building in $build; the first time takes minutes"
  start=$SECONDS
  if [ -t 1 ]; then
    ninja -C "$build" "${targets[@]}" || fail "the build ended with an error"
  else
    quietly "the build ended with an error" ninja -C "$build" "${targets[@]}"
  fi
  say '' "built in $((SECONDS - start)) s"
fi

# --- Sizes: the daemon knows what memory it may have, by the machine and by its cgroups.

start_daemon configs/quickstart.yaml
read -r available < <(arena .total_bytes)
stop_daemon || fail "tenured did not stop cleanly"
rm "$work/tenured.log"
disk=$(($(df --output=avail -k "$work" | tail -n 1) * 1024))
# Scale 1 writes files of 3.7 GiB and wants 4 GiB of memory, of which the arena is a half.
gib=$((1 << 30))
needs_memory=$((4 * gib))
[ "$(stat -f -c %T "$work")" != tmpfs ] || needs_memory=$((8 * gib))
scale=$(awk -v memory="$available" -v needs=$needs_memory -v disk=$disk -v gib=$gib 'BEGIN {
  scale = 1
  if (memory / needs < scale) scale = memory / needs
  if (disk / (5 * gib) < scale) scale = disk / (5 * gib)
  printf "%.3f", int(scale * 100) / 100 }')
awk -v scale="$scale" 'BEGIN { exit scale < 0.05 }' ||
  fail "too little room: $(human "$available") of memory, $(human "$disk") of disk in ${work%/*}"
total=$(awk -v scale="$scale" 'BEGIN { printf "%dMiB", int(2048 * scale) * 2 }')

# --- Models and the daemon

start=$(now_ns)
quietly "the models could not be written" "$bin/make-models" --catalogue --scale "$scale" --out "$work/models"
read -r files bytes < <(find "$work/models" -type f -printf '%s\n' | awk '{ n++; s += $1 } END { printf "%d %.0f\n", n, s }')
say Models "$files safetensors files, $(human "$bytes") in $work/models, written in $(took $(($(now_ns) - start)))"

# So small an arena that the largest model does not fit beside two others.
sed "s/^    # total: .*/    total: $total/" configs/quickstart.yaml >"$work/tenured.yaml"
grep -q "^    total: $total" "$work/tenured.yaml" || fail "configs/quickstart.yaml has no place for the total"
start=$(now_ns)
start_daemon "$work/tenured.yaml"
ready=$(($(now_ns) - start))
ctl_json version
read -r version metrics < <(pick tenured.version tenured.metrics_address <<<"$reply")
read -r name capacity < <(arena .name capacity)
say Daemon "tenured $version, pid $pid, ready in $(took "$ready"); $name may hold $(human "$capacity") of weights"

# --- The main job, a line a step

row() { printf '%-2s %-51s %-9s %10s %9s %12s\n' "$@"; }
echo
row '' STEP REUSE COPIED TOOK 'DRIVER ALLOCS'

# load STEP WHAT NAME REUSE: loads, checks how, prints. The model's bytes are in $bytes, the allocations
# in $allocations.
load() {
  local step=$1 what=$2 model=$3 expected=$4 before reuse copied total_ns created
  before=$(driver_allocations)
  ctl_json load "$model" "demo/$model.safetensors"
  read -r reuse copied bytes total_ns created region < <(
    pick reuse bytes_copied model.tensor_bytes phases_ns.total segments_created model.region_id <<<"$reply")
  allocations=$(($(driver_allocations) - before))
  expect "reuse when loading $model" "$reuse" "$expected"
  expect "allocations that the load of $model reports" "$created" "$allocations"
  case "$expected" in
    fresh) [ "$allocations" -gt 0 ] || fail "driver allocations for $model: none, though it is fresh" ;;
    *) expect "driver allocations for $model" "$allocations" 0 ;;
  esac
  case "$expected" in
    revived) expect "bytes copied for $model" "$copied" 0 ;;
    *) expect "bytes copied for $model" "$copied" "$bytes" ;;
  esac
  row "$step" "$what" "$reuse" "$(human "$copied")" "$(took "$total_ns")" "$allocations"
}

no_holders() {
  ctl_json model "$1"
  [ "$(pick holders <<<"$reply")" = '[]' ]
}

# verify STEP NAME: another process leases the model and compares it with its file.
verify() {
  local step=$1 model=$2 before start line tensors seen
  before=$(driver_allocations)
  start=$(now_ns)
  line=$("$bin/tenure-verify" --directory "$work/run" "$model" "$work/models/$model.safetensors" 2>&1) ||
    fail "tenure-verify $model: $line"
  start=$(($(now_ns) - start))
  read -r tensors seen < <(sed -n 's/^verified \([0-9]*\) tensors, \([0-9]*\) bytes$/\1 \2/p' <<<"$line") ||
    fail "tenure-verify $model: $line"
  expect "bytes of $model that were verified" "$seen" "$bytes"
  allocations=$(($(driver_allocations) - before))
  expect "driver allocations while $model is leased" "$allocations" 0
  until_true "the lease on $model has ended" no_holders "$model"
  row "$step" "lease $model, compare $tensors tensors, $(human "$seen")" - - "$(took "$start")" 0
}

# unload NAME: takes it offline; its bytes are retained.
unload() {
  local state
  ctl_json unload "$1"
  read -r state retained < <(pick state retained_bytes <<<"$reply")
  expect "state of $1 after unloading it" "$state" retained
}

load 1 'load moe-a' moe-a fresh
fresh_region=$region
verify 2 moe-a
unload moe-a
load 3 'unload moe-a, load it again' moe-a revived
unload moe-a
load 4 'unload moe-a, load moe-b: same architecture' moe-b adopted
expect "the region of moe-b, which is moe-a's" "$region" "$fresh_region"
verify '' moe-b
load 5 'load gnn-a: another architecture' gnn-a fresh
verify '' gnn-a

cp "$work/models/gnn-a.safetensors" "$work/changed.safetensors"
python3 -c '
import sys
with open(sys.argv[1], "r+b") as file:
    file.seek(-1, 2)
    last = file.read(1)[0]
    file.seek(-1, 2)
    file.write(bytes([last ^ 1]))' "$work/changed.safetensors"
status=0
start=$(now_ns)
line=$("$bin/tenure-verify" --directory "$work/run" gnn-a "$work/changed.safetensors" 2>&1) || status=$?
start=$(($(now_ns) - start))
expect "exit code of tenure-verify on a file with a flipped bit" "$status" 1
[[ $line == *'differs at byte'* ]] || fail "tenure-verify on a file with a flipped bit: $line"
rm "$work/changed.safetensors"
until_true "the lease on gnn-a has ended" no_holders gnn-a
row '' 'compare gnn-a with a copy with one bit flipped' - - "$(took "$start")" -
echo "   fails as it should: $line"

before=$(driver_allocations)
status=0
start=$(now_ns)
ctl --json load moe-wide demo/moe-wide.safetensors >"$work/output" 2>"$work/refusal" || status=$?
start=$(($(now_ns) - start))
expect "exit code of a load that does not fit" "$status" 1
expect "code of the refusal" "$(pick error.code <"$work/refusal")" RESOURCE_EXHAUSTED
allocations=$(($(driver_allocations) - before))
expect "driver allocations of a refused load" "$allocations" 0
row 6 'load moe-wide: does not fit beside the others' refused - "$(took "$start")" "$allocations"
pick error.message <"$work/refusal" | fold -s -w 96 | sed 's/^/   /; s/ *$//'
for model in moe-b gnn-a; do
  ctl_json model "$model"
  expect "state of $model after the refusal" "$(pick state <<<"$reply")" active
done

read -r held < <(arena reserved)
before=$(driver_allocations)
start=$(now_ns)
unload moe-b
nothing_retained() { [ "$(arena retained cached)" = '0 0' ]; }
until_true "the retained memory is given back" nothing_retained
start=$(($(now_ns) - start))
read -r holds < <(arena reserved)
expect "bytes that the backend got back" $((held - holds)) "$retained"
allocations=$(($(driver_allocations) - before))
expect "driver allocations while memory is given back" "$allocations" 0
row 7 "unload moe-b, wait for retain_ttl: $(human "$retained") back" - - "$(took "$start")" "$allocations"

# --- What is left

read -r capacity used < <(arena capacity leased loading idle retained quarantined padding free |
  awk '{ printf "%.0f %.0f\n", $1, $2 + $3 + $4 + $5 + $6 + $7 + $8 }')
expect "the sum of the ledger" "$used" "$capacity"
echo
ctl arenas | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}'
echo
echo "http://$metrics/metrics has, among others:"
quietly "/metrics does not answer" curl --silent --show-error --fail --noproxy '*' --max-time 10 "http://$metrics/metrics"
scraped=$(grep -E '^tenure_(loads_total\{.*reuse="ADOPTED"|memory_bytes\{.*arena="weights",state="idle")' "$work/output" || true)
expect "lines scraped" "$(grep -c . <<<"$scraped")" 2
while read -r line; do echo "   $line"; done <<<"$scraped"
echo

if [ -n "$keep" ]; then
  kept=yes
  rm -f "$work/output" "$work/error" "$work/refusal"
  cat <<END
All $checks checks passed. tenured goes on as pid $pid, with its models:

  export TENURE_DIR=$work/run
  $bin/tenurectl models
  $bin/tenurectl load rec-a demo/rec-a.safetensors
  $bin/tenure-verify rec-a $work/models/rec-a.safetensors
  curl http://$metrics/metrics
  cat $work/tenured.yaml $work/tenured.log

Stop it, and leave nothing behind:

  kill $pid && rm -r $work
END
else
  stop_daemon || fail "tenured did not stop cleanly"
  echo "All $checks checks passed. tenured is stopped and its models are gone; --keep leaves them there."
fi
