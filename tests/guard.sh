# guard.sh - ends what runs away and what stands still. Sourced by run.sh, sweep.sh and mutants.sh.
#
# It goes by what a command uses of the processors and never by a clock: on a busy machine a test is slow, not wrong.
# Where the system has no /proc or no setsid, nothing is ended. Not by `ulimit -t`: with that, the clock of a process's
# time stands still between ticks, and what is short takes no time at all.

per_second=$(getconf CLK_TCK 2>/dev/null || echo 100) # ticks
can_guard() { [ -r /proc/self/stat ] && command -v setsid >/dev/null; }

# Ticks of processors that the session $1 has used; "stopped" while one of its processes is stopped by a signal, "gone"
# when none is left.
ticks() {
    cat /proc/[0-9]*/stat 2>/dev/null | awk -v session="$1" '
        { sub(/^.*\) /, "") }
        $4 == session { used += $12 + $13 + $14 + $15; stopped = stopped || $1 == "T"; any = 1 }
        END { print !any ? "gone" : stopped ? "stopped" : used + 0 }'
}

# watch SECONDS STILL MARK SHELL: ends the session whose number is in MARK.session once it has used more than SECONDS of
# the processors, or nothing in STILL seconds, which the file MARK then tells; and when the shell that waits for it is
# gone.
watch() {
    before= idle=0
    while sleep 5; do
        session=$(cat "$3.session" 2>/dev/null) || return
        now=$(ticks "$session")
        [ "$now" != gone ] || return
        kill -0 "$4" 2>/dev/null || break
        if [ "$now" = "$before" ] && [ "$now" != stopped ]; then idle=$((idle + 5)); else idle=0; fi
        before=$now
        [ "$idle" -lt "$2" ] || { echo "used no processor for $2 s" >"$3" && break; }
        [ "$now" = stopped ] || [ "$now" -le $(($1 * per_second)) ] ||
            { echo "used more than $1 s of a processor" >"$3" && break; }
    done
    kill -s KILL -- "-$session"
}

# The same beside this shell, from its root, and in a session of its own: a signal that ends this shell with all of its
# group does not end what then has to end the rest. $! is its process.
watch_beside() { setsid sh -c '. tests/guard.sh && watch "$@"' sh "$@" >/dev/null 2>&1 </dev/null & }

# guarded SECONDS STILL MARK COMMAND...: its status. It may use SECONDS of the processors, and none for STILL seconds:
# after that it is ended, and the file MARK says why.
guarded() {
    seconds=$1 still=$2 mark=$3
    shift 3
    rm -f "$mark" "$mark.session"
    can_guard || { "$@"; return; }
    watch_beside "$seconds" "$still" "$mark" $$
    watching=$!
    # In the foreground: dash may sleep through the end of one that is not.
    sh -c 'echo $$ >"$1" && shift && exec setsid "$@"' sh "$mark.session" "$@"
    ended=$?
    kill "$watching" 2>/dev/null
    rm -f "$mark.session"
    return $ended
}

# Seconds of processors that what this shell has waited for used, by what `times` wrote to $1.
used() {
    awk 'NR == 2 { gsub(/[ms]/, " "); printf "%.1f\n", 60 * ($1 + $3) + $2 + $4 }' "$1"
    rm -f "$1"
}
