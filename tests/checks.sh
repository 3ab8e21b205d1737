# checks.sh - what the scripts that check share: source it after setting BUILD, end with check_end.
#
# scratch NAME makes an empty $work. check NAME COMMAND... counts, as ok and fail do that it is made of, and skip NAME
# does. Of a failure $shown lines of $work/message are shown, if it is there; where $log names a file, what a command
# says goes there, and that is shown.
passed=0 failed=0 skipped=0
log='' shown=5

have() { command -v "$1" >/dev/null 2>&1; }

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
    sed 's/^/  | /' "${log:-$work/message}" 2>/dev/null | head -n "$shown"
    failed=$((failed + 1))
}

skip() {
    echo "skipped $1"
    skipped=$((skipped + 1))
}

logged() {
    if [ -n "$log" ]; then "$@" >"$log" 2>&1; else "$@"; fi
}

check() {
    name=$1
    shift
    if logged "$@"; then ok "$name"; else fail "$name"; fi
}

# Its status is the script's.
check_end() {
    if [ "$skipped" -gt 0 ]; then
        echo "$passed passed, $failed failed, $skipped skipped"
    else
        echo "$passed passed, $failed failed"
    fi
    [ "$failed" -eq 0 ]
}
