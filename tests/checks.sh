# checks.sh - what the test scripts share: source it after setting BUILD, end with check_end.
#
# scratch NAME makes an empty $work. check NAME COMMAND... counts, as ok and fail do that it is made of; of a failure
# $work/message is shown, if there is one.
passed=0 failed=0

scratch() {
    work="$BUILD/tests/$1"
    rm -rf "$work" && mkdir -p "$work" || exit 1
}

ok() {
    echo "ok $1"
    passed=$((passed + 1))
}

fail() {
    echo "FAIL $1"
    sed 's/^/  | /' "$work/message" 2>/dev/null | head -n 5
    failed=$((failed + 1))
}

check() {
    name=$1
    shift
    if "$@"; then ok "$name"; else fail "$name"; fi
}

# Its status is the script's.
check_end() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}
