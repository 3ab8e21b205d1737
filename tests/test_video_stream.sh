#!/bin/sh
# tags: asan tsan shipped
# test_video_stream.sh - video_sr --slots: streamed weights give the bytes of resident ones, whatever is set.
#
# The clip is small, and nothing is reused from frame to frame, so that both nets are needed again and again.
# MODEL=file.gguf tests another model; where there is none, everything is skipped.
set -u
export LC_ALL=C
BUILD="${BUILD:-build}" RUN="${RUN:-}" PYTHON="${PYTHON:-python3}"
MODEL="${MODEL:-models/sr2x_video.gguf}"
if [ ! -f "$MODEL" ]; then
    echo "skipped: no model file (MODEL=file.gguf names one)"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi

. tests/checks.sh
scratch video_stream
clip="$work/clip.y4m" out="$work/out.y4m" stats="$work/stats.json"
$RUN "$BUILD/demo_clip" --quiet --frames 3 --width 144 --height 80 "$clip" || exit 1

# sr ARGUMENT...: its exit status; standard error goes to $work/message.
sr() {
    $RUN "$BUILD/video_sr" --quiet --no-reuse --model "$MODEL" --stats "$stats" "$@" 2>"$work/message"
}

# refuses STATUS TEXT ARGUMENT...: exits with that status and says something that holds the text; nothing comes out.
refuses() {
    status=$1 text=$2
    shift 2
    rm -f "$out"
    sr "$@" "$clip" "$out" >"$work/stdout"
    [ $? -eq "$status" ] && grep -q -- "$text" "$work/message" && [ ! -e "$out" ]
}

# figure KEY: of the streaming in the last run's statistics.
figure() {
    sed -n 's/^  "streaming": {.*"'"$1"'": \([0-9.a-z]*\)[,}].*/\1/p' "$stats"
}

# of_arena KEY: its bytes.
of_arena() {
    sed -n 's/^  "arena_bytes": {.*"'"$1"'": \([0-9]*\)[,}].*/\1/p' "$stats"
}

# holds ARITHMETIC: is it true?
holds() {
    awk "BEGIN { exit !($1) }"
}

# same ARGUMENT...: streams, and gives the bytes of the resident run.
same() {
    rm -f "$out"
    sr "$@" "$clip" "$out" && cmp "$plain" "$out" && [ -n "$(figure units)" ]
}

# --- every setting ---------------------------------------------------------------------------------------

plain="$work/plain.y4m"
check "the resident run" sr "$clip" "$plain"
resident=$(of_arena persistent)
check "... streams nothing" grep -q '"streaming": null' "$stats"
zero() {
    sr --slots 0 "$clip" "$out" && cmp "$plain" "$out" && grep -q '"streaming": null' "$stats"
}
check "--slots 0 is the same" zero

check "--slots 100%" same --slots 100%
least=$(figure least_bytes) all=$(figure all_bytes)
check "... takes as much as all weights do" [ "$(of_arena slots)" -eq "$all" ]
check "... reads each once" holds \
    "$(figure loads) <= $(figure units) && $(figure misses) + $(figure late) == $(figure loads)"
check "... and leaves the other weights where they were" [ "$(of_arena persistent)" -le $((resident - all + 16384)) ]

for budget in $least $((least + 1)) $(((least + all) / 2)) $((all - 64)) $all $((2 * all)) 99.9% 1G; do
    check "--slots $budget" same --slots "$budget"
done
check "the least evicts, and reads again" same --slots "$least"
check "... as the figures say" holds \
    "$(figure evictions) > 0 && $(figure loads) > $(figure units) && $(figure peak_bytes) <= $least"

if [ -n "$RUN" ] && [ "${SETTINGS:-few}" != all ]; then
    skip "all other settings: minutes in an emulator (SETTINGS=all tries them)"
    check_end
    exit
fi

for policy in reuse lru lfu; do
    check "--policy $policy" same --slots "$least" --policy $policy
    check "--policy $policy --speculate off" same --slots "$least" --policy $policy --speculate off
    check "... guesses nothing" [ "$(figure guessed_loads)" -eq 0 ]
done
for lanes in 1 2 3 4; do
    for chunk in 16K 100000 1M; do
        check "--lanes $lanes --chunk $chunk" same --slots "$least" --lanes $lanes --chunk $chunk
    done
done
staging=$(of_arena staging)
check "more lanes need more staging" same --slots "$least" --lanes 5 --chunk 1M
check "... and --stats tells it" [ "$(of_arena staging)" -gt "$staging" ]
for threads in 1 2 3; do
    check "--threads $threads" same --slots "$least" --threads $threads --chunk 16K
    check "--threads $threads --slots 100%" same --slots 100% --threads $threads --lanes 3
done
check "--buffered" same --slots "$least" --buffered
check "... is not direct" [ "$(figure direct)" = false ]
check "--check-records" same --slots "$least" --check-records
check "--check-records --buffered --chunk 4K" same --slots 100% --check-records --buffered --chunk 4K
check "--order breadth" same --slots "$least" --order breadth

for options in "--tile 96" "--conv direct" "--conv winograd" "--quality 100" "--quality 40" "--route small" \
    "--route large" "--route exit1"; do
    other() {
        sr $options "$clip" "$work/resident.y4m" || return 1
        sr $options --slots 1G "$clip" "$out" && cmp "$work/resident.y4m" "$out" || return 1
        sr $options --slots "$(figure least_bytes)" "$clip" "$out" && cmp "$work/resident.y4m" "$out"
    }
    check "$options: streamed as resident" other
done
bicubic() {
    sr --route bicubic "$clip" "$work/resident.y4m" && sr --route bicubic --slots 50% "$clip" "$out" &&
        cmp "$work/resident.y4m" "$out"
}
check "where no weights are left, --slots changes nothing" bicubic

slow() {
    same --slots "$least" --speculate off --throttle 5M && holds "$(figure read_ms) >= $(figure bytes_read) / 5e3"
}
check "--throttle: slow storage, the same bytes" slow

# --- what it refuses -------------------------------------------------------------------------------------

check "below the least: the arena and the bytes are named" refuses 1 "slots.*$least bytes" --slots $((least - 1))
check "1 byte too" refuses 1 "slots.*$least bytes" --slots 1
check "... and a percentage" refuses 1 "slots.*$least bytes" --slots 1%
for value in "" x -1 5X 5%K 0% 101% 12K% nan 1e99; do
    check "--slots \"$value\" is refused" refuses 2 "--slots" --slots "$value"
done
check "an unknown policy is refused" refuses 2 "reuse, lru or lfu" --slots 100% --policy best
check "belady is for replays" refuses 2 "reuse, lru or lfu" --slots 100% --policy belady
check "--speculate must be known" refuses 2 "auto or off" --slots 100% --speculate maybe
check "--lanes out of range is refused" refuses 2 "1 .. 8" --slots 100% --lanes 9
check "--chunk out of range is refused" refuses 2 "4K .. 1G" --slots 100% --chunk 12
check "--throttle must be a speed" refuses 2 "sd (50 MB/s)" --throttle fast
check "a profile that cannot be made is told of first" refuses 1 "nowhere/p" --profile "$work/nowhere/p" --slots 100%
check "... a trace too" refuses 1 "nowhere/t" --trace "$work/nowhere/t" --slots 100%
check "profile and trace must differ" refuses 1 "same file" --trace "$work/p" --profile "$work/p"
check "the profile must not be the input" refuses 1 "the profile and the input are the same file" --profile "$clip"
check "the trace must not be the model" refuses 1 "the trace and the model are the same file" --trace "$MODEL"

damaged() { # one byte in the middle of the large net's record
    at=$($RUN "$BUILD/brainstorm" inspect "$MODEL" |
        sed -n 's/^ *[0-9]* *large .* \([0-9]*\) bytes at \([0-9]*\), CRC.*/\1 \2/p' |
        awk '{ printf "%d", $2 + $1 / 2 }')
    [ -n "$at" ] && cp "$MODEL" "$work/damaged.gguf" || return 1
    byte=$(od -An -tu1 -j "$at" -N 1 "$MODEL")
    printf "\\$(printf %o $((byte ^ 1)))" | dd of="$work/damaged.gguf" bs=1 seek="$at" conv=notrunc 2>/dev/null
    ! sr --slots 100% --check-records --model "$work/damaged.gguf" "$clip" "$out" && grep -q . "$work/message"
}
check "--check-records finds a flipped bit" damaged

# --- what it tells ---------------------------------------------------------------------------------------

recorded() {
    same --slots "$least" --profile "$work/run.profile" --trace "$work/run.json" "$@"
}
check "--profile and --trace together" recorded
reads() {
    $RUN "$BUILD/brainstorm" "$@" >"$work/told" 2>"$work/message"
}
check "brainstorm profile reads it" reads profile "$work/run.profile"
check "... and the three runs in it" grep -q "3 runs" "$work/told"
check "brainstorm replay reads it" reads replay "$work/run.profile" --slots 100% --bandwidth sd
check "... and tells hits" grep -q "hits" "$work/told"
check "--trace alone" same --slots 100% --trace "$work/alone.json"
check "--profile of a resident run" sr --profile "$work/resident.profile" "$clip" "$out"
check "... can be read" reads profile "$work/resident.profile"
summary() {
    $RUN "$BUILD/video_sr" --model "$MODEL" --slots "$least" "$clip" "$out" 2>"$work/message" &&
        grep -q "hits, .* late, .* misses" "$work/message" &&
        grep -q "^read [0-9.]* MiB .*slots: [0-9.]* MiB of" "$work/message"
}
check "a summary for people" summary
check "brainstorm plan --slots" reads plan "$MODEL" --slots 100% --lanes 1 --chunk 16K --input frame=1x80x144
tells() {
    grep -q "^streaming: slots of $all bytes.* the least is $least" "$work/told" &&
        grep -q "^ *[01]  large  *$least bytes   path 3 of router 1" "$work/told" &&
        grep -q "^ *0  what router 1 chose of units 0 1" "$work/told"
}
check "... tells units, phases and sizes" tells
few() {
    ! reads plan "$MODEL" --slots 1 && grep -q "slots.*$least bytes" "$work/message"
}
check "... or what the least is" few
if command -v "$PYTHON" >/dev/null; then
    json() {
        "$PYTHON" -c 'import json, sys; [json.load(open(f)) for f in sys.argv[1:]]' "$@"
    }
    check "traces and statistics are JSON" json "$work/run.json" "$work/alone.json" "$stats"
fi

rm -rf "$work"
check_end
