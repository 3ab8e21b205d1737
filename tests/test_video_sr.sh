#!/bin/sh
# tags: asan tsan
# test_video_sr.sh - the command line of video_sr: what it refuses, what it survives, and what must not change a byte.
#
# Inputs are a tiny rendered clip and frames made of its bytes. MODEL=file.gguf tests another model; where there is
# none, everything is skipped.
set -u
export LC_ALL=C
BUILD="${BUILD:-build}" RUN="${RUN:-}" PYTHON="${PYTHON:-python3}"
MODEL="${MODEL:-}"
for file in models/sr2x.gguf models/sr2x_video.gguf; do
    [ -n "$MODEL" ] || [ ! -f "$file" ] || MODEL=$file
done
if [ ! -f "$MODEL" ]; then
    echo "skipped: no model file (MODEL=file.gguf names one)"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi

W=96 H=72 FRAMES=3 # four cells of 64 pixels, three of them cut by the frame's edge
. tests/checks.sh
scratch video_sr
clip="$work/clip.y4m"
$RUN "$BUILD/demo_clip" --quiet --frames $FRAMES --width $W --height $H "$clip" || exit 1

# sr ARGUMENT...: its exit status; standard error goes to $work/message.
sr() {
    $RUN "$BUILD/video_sr" --quiet --model "$MODEL" "$@" 2>"$work/message"
}

# refuses STATUS TEXT ARGUMENT...: exits with that status and says something that holds the text.
refuses() {
    status=$1 text=$2
    shift 2
    sr "$@" >"$work/stdout"
    [ $? -eq "$status" ] && grep -q -- "$text" "$work/message"
}

# --- y4m by hand -----------------------------------------------------------------------------------------

# plenty BYTES: that many bytes of picture.
plenty() {
    cat "$clip" "$clip" "$clip" "$clip" | tail -c +100 | head -c "$1"
}

# stream HEADER BYTES FRAMES [FILTER...]: a stream whose frames have that many bytes.
stream() {
    header=$1 bytes=$2 count=$3
    shift 3
    echo "YUV4MPEG2 $header"
    while [ "$count" -gt 0 ]; do
        echo FRAME
        if [ $# -gt 0 ]; then plenty "$bytes" | "$@"; else plenty "$bytes"; fi
        count=$((count - 1))
    done
}

# holds FILE FRAMES BYTES: a stream of exactly so many frames of so many bytes.
holds() {
    [ -f "$1" ] || return 1
    line=$(head -n 1 "$1" | wc -c)
    [ $(($(wc -c <"$1"))) -eq $((line + $2 * (6 + $3))) ] || { echo "  $1: $(wc -c <"$1") bytes"; return 1; }
}

frame_bytes() { # WIDTH HEIGHT of 4:2:0
    echo $(($1 * $2 + 2 * (($1 + 1) / 2) * (($2 + 1) / 2)))
}

twice=$(frame_bytes $((2 * W)) $((2 * H)))

# --- the command line ------------------------------------------------------------------------------------

says_help() {
    $RUN "$BUILD/video_sr" --help >"$work/help" 2>"$work/message" && grep -q -- --quality "$work/help" &&
        [ ! -s "$work/message" ]
}
out="$work/out.y4m"
check "--help goes to standard output, status 0" says_help
check "an unknown option is refused" refuses 2 "unknown option --colour" --colour blue "$clip" "$out"
check "an option without its value is refused" refuses 2 "needs a value" "$clip" "$out" --frames
check "an output is needed" refuses 2 "an input and an output" "$clip"
check "a third file is refused" refuses 2 "third file" "$clip" "$out" more
check "--quality out of range is refused" refuses 2 "0 .. 100" --quality 101 "$clip" "$out"
for db in 29.9 65.1 -1 nan x; do
    check "--floor $db is refused" refuses 2 "--floor $db: expected 0, or 30 .. 65 dB" --floor $db "$clip" "$out"
done
check "--threads must be whole" refuses 2 "1 .. 64" --threads 1.5 "$clip" "$out"
check "--route must be known" refuses 2 "auto, bicubic, small or large" --route best "$clip" "$out"
check "map and output must differ" refuses 1 "same file" --map "$out" "$clip" "$out"
check "an output that is named like another format is refused" refuses 2 "o.mp4: what is written is y4m" "$clip" \
    "$work/o.mp4"
check "... a map too" refuses 2 "m.MKV: what is written is y4m" --map "$work/m.MKV" "$clip" "$out"
check "nothing was written by then" [ ! -e "$out" ]

# Where there is a backend, test_cuda_video.sh says more.
if $RUN "$BUILD/brainstorm" device 2>&1 | grep -q "no CUDA backend"; then
    check "a GPU that this build cannot use is refused" refuses 1 "--device cuda: .*make CUDA=1" --device cuda "$clip" \
        "$out"
    check "... and nothing was written" [ ! -e "$out" ]
    fallback() {
        sr --device cuda --half --fallback --frames 1 "$clip" "$work/fallback.y4m" &&
            grep -q "make CUDA=1; the CPU computes" "$work/message" &&
            sr --frames 1 "$clip" "$work/cpu.y4m" && cmp "$work/cpu.y4m" "$work/fallback.y4m"
    }
    check "... unless --fallback is given" fallback
fi
check "--device must be known" refuses 2 "cpu or cuda" --device gpu "$clip" "$out"
check "--half is for a GPU" refuses 2 "for --device cuda" --half "$clip" "$out"
planned() {
    $RUN "$BUILD/brainstorm" plan "$MODEL" --device cuda "$@" >"$work/planned" &&
        grep -q "^tier cuda, " "$work/planned" &&
        device=$(sed -n 's/^device *\([0-9]*\)$/\1/p' "$work/planned") && [ "$device" -gt 0 ] &&
        grep -q "^pinned *[1-9][0-9]*$" "$work/planned"
}
check "a plan for a GPU needs none" planned
f32=$device
check "... in f16" planned --half
check "... which takes less" [ "$device" -lt "$f32" ]
cpu_half() {
    ! $RUN "$BUILD/brainstorm" plan "$MODEL" --half 2>"$work/message" >"$work/planned" &&
        grep -q "for --device cuda" "$work/message"
}
check "... and is not for a CPU" cpu_half

# --- inputs it refuses -----------------------------------------------------------------------------------

check "a missing input is refused" refuses 1 "nothing.y4m: cannot be opened: No such file" "$work/nothing.y4m" "$out"
echo "not a video" >"$work/text.y4m"
check "what is no y4m is refused" refuses 1 "not a YUV4MPEG2" "$work/text.y4m" "$out"
printf '\000\000\000\030ftypmp42' >"$work/clip.mp4"
check "... and what makes y4m of it is said" refuses 1 "ffmpeg .*yuv4mpegpipe" "$work/clip.mp4" "$out"
: >"$work/empty.y4m"
check "an empty input is refused" refuses 1 "empty" "$work/empty.y4m" "$out"
stream "W$W H$H F24:1 It C420jpeg" "$(frame_bytes $W $H)" 1 >"$work/interlaced.y4m"
check "interlaced video is refused" refuses 1 "interlaced" "$work/interlaced.y4m" "$out"
stream "W$W H$H F24:1 Ip C411" 100 1 >"$work/c411.y4m"
check "an unknown layout is refused" refuses 1 "layout" "$work/c411.y4m" "$out"
stream "W$W H$H F24:1 Ip C444p12" 100 1 >"$work/c444p12.y4m"
all="420jpeg C420mpeg2 C420paldv C420 C422 C444 Cmono C420p10 C422p10 C444p10"
check "... and those that are known are named" refuses 1 "C444p12, known: C$all$" "$work/c444p12.y4m" "$out"
check "an unknown model is refused" refuses 1 "none.gguf" --model "$work/none.gguf" "$clip" "$out"
far=$work/folders/whose/names/are/longer/than/a/message/has/room/for
mkdir -p "$far"
for folder in "$work" "$far"; do
  head -c 20000 "$MODEL" >"$folder/cut.gguf"
  check "a truncated model is refused" refuses 1 "cut.gguf" --model "$folder/cut.gguf" "$clip" "$out"
  check "... and named once" [ "$(grep -o cut.gguf "$work/message" | wc -l)" -eq 1 ]
done
check "a model that is a video is refused" refuses 1 "clip.y4m" --model "$clip" "$clip" "$out"
check "a reference of another size is refused" refuses 1 "the reference is ${W}x$H" --reference "$clip" "$clip" "$out"
check "no output was made by any of these" [ ! -e "$out" ]

cp "$clip" "$work/same.y4m"
check "the same file as input and output is refused" refuses 1 "same file" "$work/same.y4m" "$work/same.y4m"
check "... by another name too" refuses 1 "same file" "$work/same.y4m" "$work/../video_sr/same.y4m"
check "... and the input is as it was" cmp "$clip" "$work/same.y4m"

# --- ends that come early --------------------------------------------------------------------------------

head -c $(($(wc -c <"$clip") - 7)) "$clip" >"$work/short.y4m"
check "a short last frame is an error" refuses 1 "inside a frame" "$work/short.y4m" "$out"
check "... and the output holds the whole frames before it" holds "$out" $((FRAMES - 1)) "$twice"
if [ -c /dev/full ]; then
    check "a full disk is an error" refuses 1 "cannot write" "$clip" /dev/full
fi
closed_pipe() {
    { sr "$clip" -; echo $? >"$work/status"; } | head -c 1000 >/dev/null
    [ "$(cat "$work/status")" -eq 1 ] && grep -q "cannot write" "$work/message"
}
check "a closed pipe is an error, not a signal" closed_pipe
check "a reference with fewer frames is an error" refuses 1 "fewer frames" --reference "$out" "$clip" "$work/other.y4m"

# --- what comes out --------------------------------------------------------------------------------------

plain="$work/plain.y4m"
check "a clip is doubled" sr --stats "$work/stats.json" "$clip" "$plain"
check "... every frame of it" holds "$plain" $FRAMES "$twice"
check "... with its tags" grep -a -q "^YUV4MPEG2 W$((2 * W)) H$((2 * H)) F24:1 Ip C420jpeg .*XCOLORRANGE=LIMITED" \
    "$plain"

through_pipes() {
    cat "$clip" | sr - - | cat >"$work/piped.y4m" && cmp "$plain" "$work/piped.y4m"
}
check "pipes give the same bytes as files" through_pipes
check "--frames stops there" sr --frames 2 "$clip" "$out"
check "... with two frames" holds "$out" 2 "$twice"
same_as_plain() {
    sr "$@" "$clip" "$out" && cmp "$plain" "$out"
}
check "routed tiles smaller than the model's are refused" refuses 1 "take larger patches" --tile 24 "$clip" \
    "$work/other.y4m"
check "three threads give the same bytes as one" same_as_plain --threads 3
check "breadth first gives the same bytes" same_as_plain --order breadth
check "depth first gives the same bytes" same_as_plain --order depth --threads 2
for options in "--no-reuse" "--quality 0" "--quality 100" "--floor 0" "--floor 50" "--conv winograd" "--tile 96"; do
    runs() { sr $options "$clip" "$out" && holds "$out" $FRAMES "$twice"; }
    check "$options runs" runs
done

for route in bicubic small large exit1; do
    sr --route $route --conv direct --tile 64 --frames 1 "$clip" "$work/tile64.y4m" || fail "--route $route runs"
    for tile in 16 40 128; do
        tiled() {
            sr --route $route --conv direct --tile $tile --threads 2 --frames 1 "$clip" "$out" &&
                cmp "$work/tile64.y4m" "$out"
        }
        check "--route $route: tiles of $tile give the bytes of tiles of 64" tiled
    done
done

tiers=0
for tier in scalar avx2 avx512 neon; do
    if sr --tier $tier --frames 1 "$clip" "$out"; then
        check "--tier $tier runs" holds "$out" 1 "$twice"
        tiers=$((tiers + 1))
    elif ! grep -q "tier" "$work/message"; then
        fail "--tier $tier: says it is not available"
    fi
done
check "there is more than no tier" [ $tiers -ge 1 ]

letters=$(plenty 400 | tr -dc 'a-z' | head -c 10)
long="W$W H$H F24:1 Ip A1:1 C420mpeg2 XYSCSS=420MPEG2 XCOLORRANGE=FULL XLONG=$letters$(printf %0120d 0)"
stream "$long" "$(frame_bytes $W $H)" 1 >"$work/long.y4m"
short_header() {
    sr "$work/long.y4m" "$out" || return 1
    head -n 1 "$out" >"$work/header"
    [ $(($(wc -c <"$work/header"))) -le 96 ] &&
        grep -q "W$((2 * W)) H$((2 * H)) .*C420mpeg2.*XCOLORRANGE=FULL" "$work/header"
}
check "a header keeps to 96 bytes and what matters" short_header

# layout NAME BYTES BYTES_OF_TWICE [FILTER...] for a frame of 50 x 38
layout() {
    kind=$1 bytes=$2 result=$3
    shift 3
    stream "W50 H38 F24:1 Ip C$kind" "$bytes" 2 "$@" >"$work/layout.y4m"
    sr "$work/layout.y4m" "$out" && holds "$out" 2 "$result" && head -n 1 "$out" | grep -q "C$kind\$"
}
small=$((50 * 38)) big=$((100 * 76))
codes="tr \004-\377 [\001*]" # as two bytes a sample: codes of 0 to 771
for name in 420jpeg 420mpeg2 420paldv 420; do
    check "layout $name" layout $name $((small * 3 / 2)) $((big * 3 / 2))
done
check "layout 422" layout 422 $((small * 2)) $((big * 2))
check "layout 444" layout 444 $((small * 3)) $((big * 3))
check "layout mono" layout mono $small $big
check "layout 420p10" layout 420p10 $((small * 3)) $((big * 3)) $codes
check "layout 422p10" layout 422p10 $((small * 4)) $((big * 4)) $codes
check "layout 444p10" layout 444p10 $((small * 6)) $((big * 6)) $codes

# Two bytes of 255 a sample: codes that 10 bits cannot hold, all of them; and the largest that they can.
all_of() { # LOW HIGH: two bytes, in octal
    stream "W50 H38 F24:1 Ip C444p10" 1 1 sh -c \
        "cat >/dev/null; yes '' | tr '\\n' '\\$1' | head -c $((small * 3)) | sed 's/./&X/g' | tr X '\\$2'"
}
all_of 377 377 >"$work/above.y4m"
all_of 377 003 >"$work/flat.y4m"
as_the_largest() {
    sr "$@" "$work/above.y4m" "$out" && sr "$@" "$work/flat.y4m" "$work/other.y4m" && holds "$out" 1 $((big * 6)) &&
        cmp "$out" "$work/other.y4m"
}
check "a flat frame of codes above the largest" holds "$work/above.y4m" 1 $((small * 6))
for route in bicubic small large auto; do
    check "... is one of the largest: --route $route" as_the_largest --route $route
done
largest() {
    as_the_largest --route bicubic &&
        [ "$(tail -c $((big * 6)) "$out" | od -An -v -tu2 -w2 | sort -u | tr -d ' ')" = 1023 ]
}
check "... and stays that" largest
above_psnr() {
    sr --reference "$out" --route bicubic --stats "$work/above.json" "$work/above.y4m" "$work/other.y4m" &&
        grep -q '"psnr_y": null' "$work/above.json"
}
check "... when it is measured too" above_psnr

for size in 1x1 2x1 17x3 63x65 65x63 131x7; do
    odd() {
        w=${size%x*} h=${size#*x}
        stream "W$w H$h F24:1 Ip C420jpeg" "$(frame_bytes $w $h)" 2 >"$work/odd.y4m"
        sr "$work/odd.y4m" "$out" && holds "$out" 2 "$(frame_bytes $((2 * w)) $((2 * h)))"
    }
    check "a frame of $size" odd
done

# --- what it tells ---------------------------------------------------------------------------------------

number() { # KEY
    sed -n 's/^  "'"$1"'": \([0-9.]*\),*$/\1/p' "$work/stats.json"
}
within_plan() {
    [ "$(number arena_bytes_touched)" -gt 0 ] && [ "$(number arena_bytes_touched)" -le "$(number arena_bytes_planned)" ]
}
check "--stats counts the frames" [ "$(number frames)" = $FRAMES ]
# floor_is DB ARGUMENT...: what --stats tells of the floor in force.
floor_is() {
    wanted=$1
    shift
    sr --stats "$work/floor.json" --frames 1 "$@" "$clip" "$out" &&
        grep -q "^  \"floor\": $wanted,\$" "$work/floor.json"
}
case $MODEL in
*sr2x_video.gguf) check "--stats tells the model's floor" floor_is 55 ;;
*) skip "the floor of this model is not known" ;;
esac
for db in 0 30 45.5 65; do
    check "... or the one that is asked for, $db" floor_is $db --floor $db
done
check "... and none where nothing is decided" floor_is null --route small
threads() { sr --stats "$work/threads.json" --frames 1 "$@" "$clip" "$out" && cat "$work/threads.json"; }
if have nproc; then
    here=$(nproc)
    [ "$here" -le 64 ] || here=64
    check "as many threads as there are processors" eval "threads | grep -q '\"threads\": $here,'"
    ! have taskset || check "... that the process may use" eval \
        "RUN=\"taskset -c $(taskset -cp $$ | sed 's/.*: //; s/[-,].*//') $RUN\"; threads | grep -q '\"threads\": 1,'"
fi
check "... or as many as are asked for" eval "threads --threads 3 | grep -q '\"threads\": 3,'"
check "no more bytes are written than were planned" within_plan
cells() {
    sed -n 's/^    "[a-z]*": {"cells": \([0-9]*\),.*/\1/p' "$work/stats.json" |
        awk '{ n += $1 } END { exit n != 4 * '$FRAMES' }'
}
check "every cell took one route" cells

references() {
    $RUN "$BUILD/video_sr" --model "$MODEL" --route bicubic --stats "$work/stats.json" --reference "$plain" "$clip" \
        "$out" 2>"$work/message" &&
        grep -q "PSNR-Y [0-9.]* dB" "$work/message" && [ -n "$(number psnr_y)" ]
}
check "--reference measures" references
parses() {
    "$PYTHON" -c 'import json, sys; [json.load(open(f)) for f in sys.argv[1:]]' "$work/stats.json" "$work/inf.json"
}
check "a perfect result is measured too" sr --stats "$work/inf.json" --reference "$plain" "$clip" "$out"
if command -v "$PYTHON" >/dev/null; then
    check "--stats is JSON" parses
fi

png() {
    sr "$@" --map "$work/map.png" "$clip" "$out" && [ "$(head -c 4 "$work/map.png" | tail -c 3)" = PNG ]
}
check "--map draws a PNG" png
check "... of a forced route as well" png --route bicubic
check "--map writes a video" sr --map "$work/map.y4m" "$clip" "$out"
check "... of every frame" holds "$work/map.y4m" $FRAMES "$twice"
check "... and leaves the video alone" cmp "$plain" "$out"

# What is written at the end keeps its content, or is not made, when the end does not come.
unfinished() {
    head -c $((W * H * 2)) "$clip" >"$work/cut.y4m"
    echo before >"$work/kept.json" && echo before >"$work/kept.png"
    ! sr --stats "$work/kept.json" --map "$work/kept.png" "$work/cut.y4m" "$out" &&
        ! sr --stats "$work/none.json" --map "$work/none.png" "$work/cut.y4m" "$out" &&
        [ "$(cat "$work/kept.json" "$work/kept.png" | tr '\n' ' ')" = "before before " ] &&
        [ ! -e "$work/none.json" ] && [ ! -e "$work/none.png" ]
}
check "old statistics and an old map outlive a run that fails" unfinished

rm -rf "$work"
check_end
