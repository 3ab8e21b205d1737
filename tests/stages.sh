#!/usr/bin/env bash
# stages.sh ci|all [list] - the stages of `.ci/run`, or of `make test-all`: each of these whole, and what takes long.
#
# A stage that reports `N passed, N failed` counts as that; another one counts as one. Logs: build/ci/. In the end it
# tells the time of each stage, of processors and of the clock, and the ten tests that took most. CI_STAGES="test
# check": only these. `list` prints what would run: NAME COMMAND, a line a stage.
#
# Which tests a stage runs is told by their tags (tests/tags.txt). A stage looks for what no other can find.
set -u -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
tier=${1:-ci} list=${2:-}
case $tier in
ci) budget=6000 clock=5100 ;; # seconds of processors, 3,000 of two; and of the clock, for what stands still
all) budget=80000 clock=80000 ;;
*) echo "stages.sh ci|all [list]" >&2; exit 2 ;;
esac
logs=build/ci
mkdir -p "$logs"
export TEST_TIMES="$PWD/$logs/times.txt"
[ -n "$list" ] || : >"$TEST_TIMES"
PYTHON=${PYTHON:-python3}
passed=0 failed=0 skipped=0 processors=0 summary=()

# --- how a stage runs ------------------------------------------------------------------------------------

have() { command -v "$1" >/dev/null 2>&1; }
. tests/compilers.sh

# only CI HERE: what CI has, or all.
only() { if [ "$tier" = ci ]; then echo "$1"; else echo "$2"; fi; }

wanted() { [ -z "${CI_STAGES:-}" ] || [[ " $CI_STAGES " == *" $1 "* ]]; }

# perform NAME COMMAND...: into a log; leaves the exit status, and the seconds it took.
perform() {
  local name=$1 limit=$((clock > SECONDS ? clock - SECONDS : 1)) status=0 started=$SECONDS
  shift
  rm -f "$logs/$name.end"
  echo "=== $name: $*"
  { TIMEFORMAT='%U %S' && time timeout -k 10 "$limit" "$@" 2>&1 | tee "$logs/$name.log"; } 2>"$logs/$name.used" ||
    status=$?
  echo "$status $((SECONDS - started)) $(tail -n 1 "$logs/$name.used")" >"$logs/$name.end"
}

# count NAME: adds what a stage that has ended reports.
count() {
  local name=$1 status=1 seconds=0 user=0 system=0 used line p=0 f=0 s=0
  [ ! -f "$logs/$name.end" ] || read -r status seconds user system <"$logs/$name.end"
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$' "$logs/$name.log" | tail -n 1)
  if [ -n "$line" ]; then
    read -r p f s <<<"$(tr -cd '0-9 ' <<<"$line") 0"
    s=${s%% *}
  elif [ "$status" -eq 0 ]; then
    p=1
  fi
  [ "$status" -eq 0 ] || [ "$f" -gt 0 ] || f=1
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  used=$(echo "$user $system" | awk '{ printf "%.0f", $1 + $2 }')
  processors=$((processors + used))
  summary+=("$(printf '%-15s %6d passed %4d failed %4d skipped %6d s of processors %5d s' \
    "$name" "$p" "$f" "$s" "$used" "$seconds")")
}

# stage NAME COMMAND...
stage() {
  if [ -n "$list" ]; then
    printf '%q ' "$@" && echo
  elif wanted "$1"; then
    perform "$@"
    count "$1"
  fi
}

# start NAME COMMAND...: a stage that leaves a processor idle, beside the next ones; what it says waits for
# `finish`.
beside=()
start() {
  if [ -n "$list" ]; then
    printf '%q ' "$@" && echo
  elif wanted "$1"; then
    perform "$@" >"$logs/$1.said" 2>&1 &
    beside+=("$1")
  fi
}
finish() {
  local name
  wait
  for name in "${beside[@]}"; do
    cat "$logs/$name.said"
    count "$name"
  done
  beside=()
}

skip() {
  summary+=("$(printf '%-15s skipped: %s' "$1" "$2")")
  skipped=$((skipped + 1))
}

# --- the stages ------------------------------------------------------------------------------------------

stage build make all build/bench/preload # which is not run: minutes
# shellcheck disable=SC2046
stage test $(only "" "env TEST_BUDGET=all FROZEN=all") make test # the README's command
stage longer make test TAGS="$(only long 'long minutes')"
stage demo make demo

# The file that users copy: what it is made of, how it is built in, what can be left out of it, what it weighs.
start check make check
start consumers make consumers CMAKE_TESTS="$(only no yes)"
finish
start size make size ROWS="$(only limits all)"
if have aarch64-linux-gnu-gcc && have qemu-system-aarch64; then
  start bare make bare
else
  skip bare "no cross compiler or no qemu-system-aarch64"
fi
finish
# shellcheck disable=SC2046
start modules make test-modules $(only "COMPILERS=gcc RUN_EACH=no" "")
# shellcheck disable=SC2046
stage lint $(only "env STACK_LEVELS=-O2 TIDY_NODES=2000" env) make lint \
  PARTS="$(only 'warnings stack recursion tidy' 'warnings stack recursion analyzer tidy cppcheck')"
finish

# Other builds, each with the tests that say something new there.
start small env FROZEN=all make test-small
start shipped env FROZEN=all make test-shipped
stage asan make test-asan TAGS="$(only asan 'asan unsigned')" TIER="$(only quick all)"
finish
if have clang; then
  start unsigned make test-unsigned
  tsan=(CC=clang BUILD=build/clang-tsan)
else
  skip unsigned "no clang"
  tsan=(BUILD=build/tsan)
fi
stage sweep make sweep STRIDE="$(only 397 1)"
finish
if can_32_bit; then
  start 32-bit make test-32 CPPFLAGS=-DBS_NO_SIMD
else
  skip 32-bit "no libraries for gcc -m32"
fi
stage tsan make test-tsan TIER="$(only quick all)" "${tsan[@]}"
finish
if have aarch64-linux-gnu-gcc && { have qemu-aarch64-static || have qemu-aarch64; }; then
  stage aarch64 env FROZEN=all make test-aarch64
else
  skip aarch64 "no cross compiler or no qemu"
fi
if has_fuzzer; then
  stage fuzz make fuzz FUZZ_LEVEL="-Os -DBS_SMALL -g1" SECONDS="$(only 10 60)" JOBS=2
else
  skip fuzz "no clang, or none with libFuzzer"
fi

# The CUDA backend: what nvcc makes of it for one architecture, without optimizing (`make check-cuda` has all of it).
if [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]; then
  # shellcheck disable=SC2046
  start cuda-build make check-cuda $(only "SMS=87 KERNELS=no" "")
else
  skip cuda-build "no nvcc"
fi
# Without a GPU: in the emulation, with sanitizers; threads of a block in a random order where they work together.
# The thread sanitizer of clang misses races among more than 128 threads of a block.
if [ -f "${CUDA_HOME:-/usr/local/cuda}/include/cuda_runtime.h" ]; then
  stage cuda-engine sh tests/cuda_cpu/self_test.sh build/cuda-engine
  finish
  stage cuda-order env CUDA_CPU_ORDER=2 make test CUDA=emulated TAGS=order
  stage cuda-programs make test CUDA=emulated TAGS=emulated TIER="$(only quick all)"
  if have clang; then
    start cuda-tsan make test-tsan CUDA=emulated CC=clang BUILD=build/clang-tsan/cuda-emulated
  else
    skip cuda-tsan "no clang"
  fi
  stage cuda-asan make test-asan CUDA=emulated TAGS=asan
  finish
else
  finish
  skip cuda-emulated "no CUDA headers"
fi

# Whether the tests notice faults: most of an hour.
if [ "$tier" != ci ]; then
  stage mutants make mutants
  stage mutants-cuda make mutants-cuda
fi

# --- what it comes to ------------------------------------------------------------------------------------

[ -z "$list" ] || exit 0
printf '\nthe tests that took most of a processor, in any build:\n'
sort -rn "$TEST_TIMES" | head -n 10 |
  while read -r used seconds name build; do printf '%-28s %8.1f s %5d s  %s\n' "$name" "$used" "$seconds" "$build"; done
printf '\n'
printf '%s\n' "${summary[@]}"
[ "$skipped" -eq 0 ] || echo "$skipped skipped: see the stages above"
echo "$processors s of processors, $SECONDS s"
if [ "$processors" -gt "$budget" ]; then
  failed=$((failed + 1))
  echo "that is more than the $budget s of processors that all stages may take"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
