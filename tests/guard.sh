# guard.sh - ends what runs away and what stands still. Sourced by run.sh and mutants.sh.
#
# It goes by what a command uses of the processors and never by a clock: on a busy machine a test is slow, not wrong.
# Where the system has no /proc or no setsid, nothing is ended.

can_guard() { [ -r /proc/self/stat ] && command -v setsid >/dev/null; }

# Ticks of processors that the session $1 has used; "stopped" while one of its processes is stopped by a signal.
ticks() {
    cat /proc/[0-9]*/stat 2>/dev/null | awk -v session="$1" '
        { sub(/^.*\) /, "") }
        $4 == session { used += $12 + $13 + $14 + $15; stopped = stopped || $1 == "T" }
        END { print stopped ? "stopped" : used + 0 }'
}

# Returns once the session $1 has used nothing in $2 seconds: it waits for what never comes.
stands_still() {
    before= idle=0
    while [ "$idle" -lt "$2" ]; do
        sleep 5
        now=$(ticks "$1")
        if [ "$now" = "$before" ] && [ "$now" != stopped ]; then idle=$((idle + 5)); else idle=0; fi
        before=$now
    done
}

# guarded SECONDS STILL MARK COMMAND...: its status. A command that uses no processor for STILL seconds is ended and
# leaves the file MARK.
guarded() {
    seconds=$1 still=$2 mark=$3
    shift 3
    rm -f "$mark"
    can_guard || { "$@"; return; }
    { ulimit -t "$seconds" && exec setsid "$@"; } & # a session of its own
    session=$!
    trap 'kill -s TERM -- "-$session"; exit 130' INT TERM HUP
    (stands_still "$session" "$still" && : >"$mark" && kill -s KILL -- "-$session") >/dev/null 2>&1 &
    watch=$!
    wait "$session"
    ended=$?
    trap - INT TERM HUP
    kill "$watch" 2>/dev/null
    wait "$watch" 2>/dev/null
    return $ended
}

# Seconds of processors that what this shell has waited for used, by what `times` wrote to $1.
used() {
    awk 'NR == 2 { gsub(/[ms]/, " "); printf "%.1f\n", 60 * ($1 + $3) + $2 + $4 }' "$1"
    rm -f "$1"
}
