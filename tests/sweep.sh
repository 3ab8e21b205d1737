#!/bin/sh
# sweep.sh PROGRAM... - all cases of the sweeps (tests/test_sweep_*.c and test_cuda_sweep.c), which by themselves take a
# part of them. STRIDE=3: every third. `make sweep` calls it, with programs built with sanitizers.
#
# Each program runs in $SHARES shares, as many at a time as there are cores. What they print is kept beside them, in
# PROGRAM.K.log; a share that fails, that ends without its report, that takes more than $SECONDS_EACH seconds of a
# processor or none for $STILL seconds shows its last lines and counts as failed.
set -u
SHARES="${SHARES:-4}"
SECONDS_EACH="${SECONDS_EACH:-900}" STILL="${STILL:-300}"
JOBS="${JOBS:-$(nproc 2>/dev/null || echo 2)}"
export SWEEP_STRIDE="${STRIDE:-1}" SECONDS_EACH STILL SHARES
export ASAN_OPTIONS="${ASAN_OPTIONS:-strict_string_checks=1}"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"

shares() {
    k=0
    while [ "$k" -lt "$SHARES" ]; do
        for program in "$@"; do echo "$program $k"; done
        k=$((k + 1))
    done
}

shares "$@" | xargs -P "$JOBS" -L 1 sh -c '
    began=$(date +%s)
    . tests/guard.sh
    export SWEEP_PART=$1/$SHARES
    guarded "$SECONDS_EACH" "$STILL" "$0.$1.still" "$0" >"$0.$1.log" 2>&1 </dev/null
    echo "$? $(($(date +%s) - began))" >"$0.$1.status"'

passed=0 failed=0
for program in "$@"; do
    k=0
    while [ "$k" -lt "$SHARES" ]; do
        read -r status seconds <"$program.$k.status"
        line=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$program.$k.log" | tail -n 1)
        p=$(echo "${line:-0}" | cut -d' ' -f1) f=$(echo "${line:-0 passed, 0}" | cut -d' ' -f3)
        [ "$status" -eq 0 ] && [ -n "$line" ] || [ "$f" -gt 0 ] || f=1
        printf '%-20s share %d of %d: %4d passed, %d failed %5d s\n' "$(basename "$program")" $((k + 1)) "$SHARES" \
            "$p" "$f" "$seconds"
        [ "$f" -eq 0 ] || tail -n 40 "$program.$k.log" | sed 's/^/    | /'
        passed=$((passed + p)) failed=$((failed + f)) k=$((k + 1))
    done
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
