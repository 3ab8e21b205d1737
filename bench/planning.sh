#!/bin/sh
# planning.sh - counts the instructions that planning takes, by callgrind, for networks of 1k to 64k nodes. Fails when
# from 16k to 64k nodes they grow more than five times. Some minutes; `make bench-planning` calls it. $BUILD is where
# the benchmark is [build].
set -u
BUILD=${BUILD:-build}
command -v valgrind >/dev/null || { echo "planning.sh: no valgrind" >&2; exit 1; }

# Instructions of planning network $1 of $2 nodes.
count() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect=bs_plan_create "$BUILD/bench/planning" \
      "$1" "$2" 2>&1 |
        sed -n 's/.*Collected : *//p'
}

status=0
printf '%-10s %14s %14s %14s %14s   16k to 64k\n' network 1024 4096 16384 65536
for net in chain alive two-paths experts; do
    a=$(count $net 1024) b=$(count $net 4096) c=$(count $net 16384) d=$(count $net 65536)
    printf '%-10s %14s %14s %14s %14s   ' $net "$a" "$b" "$c" "$d"
    awk -v c="${c:-0}" -v d="${d:-0}" \
      'BEGIN { if (c + 0 == 0) exit 1; printf "%.2f times\n", d / c; exit d > 5 * c }' || status=1
done
exit $status
