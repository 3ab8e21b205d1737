#!/bin/sh
# coverage.sh - which branches of src/ the tests take. `make coverage` calls it, in the repository's root.
#
#   TEST="test_gguf test_model"   these tests [all: each adds to what is counted]
#   FILES="src/model/model.c"           prints what they leave out in these files
#
# Builds and runs the tests in $BUILD with gcc's counters, reads these with gcovr; coverage.py makes the report and says
# what must hold. Counters begin at zero in each run. A process that ends in a signal or _exit() has counted nothing.
set -u
BUILD="${BUILD:-build/coverage}" PYTHON="${PYTHON:-python3}" MAKE="${MAKE:-make}" TEST="${TEST:-}" FILES="${FILES:-}"
CC="${CC:-gcc}" JOBS="${JOBS:-2}"

for tool in "$CC" gcovr "$PYTHON"; do
    command -v "$tool" >/dev/null || { echo "coverage needs $tool"; echo "0 passed, 1 failed"; exit 1; }
done

mkdir -p "$BUILD" || exit 1
find "$BUILD" -name '*.gcda' -exec rm -f {} +
tested=0
TEST_BUDGET=all FROZEN=all "$MAKE" --no-print-directory -j"$JOBS" test COVERAGE=1 BUILD="$BUILD" CC="$CC" \
    SECONDS_EACH=900 TIER=all EMULATED_TESTS= ${TEST:+TEST="$TEST"} || tested=1

for file in $FILES; do
    [ -f "$file" ] || { echo "no file $file"; exit 1; }
done

gcovr -j "$JOBS" --root . --filter src/ --exclude src/kernels/ --exclude src/cuda/ --json "$BUILD/counted.json" \
    "$BUILD/obj/src" \
    >"$BUILD/gcovr.log" 2>&1 || { tail -n 20 "$BUILD/gcovr.log"; echo "0 passed, 1 failed"; exit 1; }
[ -z "$FILES" ] || exec "$PYTHON" tests/coverage.py "$BUILD/counted.json" $FILES

TESTS_FAILED=$tested PARTIAL="$TEST" "$PYTHON" tests/coverage.py "$BUILD/counted.json" --unmarked "$BUILD/unmarked.json"
failed=$?
gcovr --root . --add-tracefile "$BUILD/unmarked.json" --html-details "$BUILD/index.html" >>"$BUILD/gcovr.log" 2>&1 ||
    { tail -n 5 "$BUILD/gcovr.log" >&2; failed=1; }
exit $failed
