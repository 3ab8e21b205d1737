#!/bin/sh
# tags: long asan tsan uses:bench/ops,bench/frames,bench/preload
# test_same_files.sh - no program destroys a file that it reads, or writes for something else, whatever that file is
# called.
#
# A table of the files of every program. Each that is written is put in the place of each other one: by the same name,
# by another spelling, through a symbolic link, as a hard link, and where neither is there yet. The run must be refused,
# and the folder must be as it was, byte for byte. Then runs that are refused for other reasons, and files that may be
# used twice. Benchmarks take part where they are built (make build/bench/ops build/bench/frames build/bench/preload).
set -u
export LC_ALL=C
BUILD="${BUILD:-build}" RUN="${RUN:-}"
. tests/checks.sh
scratch same_files
dir="$work/run"
case $BUILD in /*) built=$BUILD ;; *) built=$PWD/$BUILD ;; esac
case $dir in /*) ;; *) dir=$PWD/$dir ;; esac
for file in models/sr2x_video.gguf models/moe_text.gguf; do
    [ -f "$file" ] || { echo "0 passed, 0 failed, 1 skipped"; exit 0; }
done

# --- the programs ----------------------------------------------------------------------------------------

# Files that are read: ROLE.r, and what they hold. Those that are written have a name of their own in each run.
mkdir "$work/given"
$RUN "$BUILD/demo_clip" --quiet --frames 2 --width 64 --height 48 "$work/given/input" || exit 1
$RUN "$BUILD/demo_clip" --quiet --frames 2 --width 128 --height 96 "$work/given/reference" || exit 1
$RUN "$BUILD/demo_clip" --quiet --frames 1 --width 320 --height 184 "$work/given/before" || exit 1
cp "$work/given/before" "$work/given/after"
cp "$work/given/before" "$work/given/whole"
cp models/sr2x_video.gguf "$work/given/model"
cp models/moe_text.gguf "$work/given/text"
$RUN "$BUILD/moe_text" --model models/moe_text.gguf --length 3 --slots 1M --profile "$work/given/profile" >/dev/null ||
    exit 1

# Each program: its name, the roles of what it reads, of what it writes. "stdout" is appended to.
programs='
video_sr|input reference model|output map stats recorded trace
video_png|input model|output map.png
halve|input|output
crop|input|output
demo_pictures|before after whole|output
moe_text|text|stdout recorded trace
brainstorm_trace|profile|trace
brainstorm_profile|profile|stdout
brainstorm_replay|profile|stdout
brainstorm_inspect|model|stdout
brainstorm_check|model|stdout
brainstorm_plan|model|stdout
brainstorm_save|model|stdout image
'

# Benchmarks: asked for nothing that they could measure. One reads files whose names are its own: links to those of the
# run.
benchmarks='
ops||json stdout
frames|model|stdout
preload|text told|json stdout
'
cp "$0" "$work/given/told" # any text
mkdir -p "$work/there/models"
ln -s "$dir/text" "$work/there/models/moe_text.gguf"
ln -s "$dir/told" "$work/there/README.md"

# path ROLE: where it is in this run: itself, or in the place of another.
path() {
    if [ "$1" = "$written" ]; then echo "$alias"; else echo "$dir/$1"; fi
}

start() { # PROGRAM
    case $1 in
    video_sr)
        $RUN "$BUILD/video_sr" --model "$(path model)" --reference "$(path reference)" --map "$(path map)" \
            --stats "$(path stats)" \
            --profile "$(path recorded)" --trace "$(path trace)" "$(path input)" "$(path output)"
        ;;
    video_png) $RUN "$BUILD/video_sr" --model "$(path model)" --map "$(path map.png)" "$(path input)" \
        "$(path output)" ;;
    halve) $RUN "$BUILD/halve" "$(path input)" "$(path output)" ;;
    crop) $RUN "$BUILD/halve" --crop-only "$(path input)" "$(path output)" ;;
    large_clip) $RUN "$BUILD/demo_clip" --quiet --frames 1 --width 4096 --height 4096 "$(path output)" ;;
    new_clip) $RUN "$BUILD/demo_clip" --quiet --frames 1 --width 4096 --height 4096 "$(path new)" ;;
    demo_pictures) $RUN "$BUILD/demo_pictures" "$(path before)" "$(path after)" "$(path whole)" "$(path output)" ;;
    moe_text)
        $RUN "$BUILD/moe_text" --length 5 --model "$(path text)" --profile "$(path recorded)" \
            --trace "$(path trace)" >>"$(path stdout)"
        ;;
    brainstorm_trace) $RUN "$BUILD/brainstorm" trace "$(path profile)" "$(path trace)" ;;
    brainstorm_profile) $RUN "$BUILD/brainstorm" profile "$(path profile)" >>"$(path stdout)" ;;
    brainstorm_replay) $RUN "$BUILD/brainstorm" replay "$(path profile)" >>"$(path stdout)" ;;
    brainstorm_inspect) $RUN "$BUILD/brainstorm" inspect "$(path model)" >>"$(path stdout)" ;;
    brainstorm_check) $RUN "$BUILD/brainstorm" check "$(path model)" >>"$(path stdout)" ;;
    brainstorm_plan) $RUN "$BUILD/brainstorm" plan "$(path model)" --input frame=1x48x64 >>"$(path stdout)" ;;
    brainstorm_save)
        $RUN "$BUILD/brainstorm" plan "$(path model)" --input frame=1x48x64 --save "$(path image)" >>"$(path stdout)"
        ;;
    ops) $RUN "$BUILD/bench/ops" --tier none --json "$(path json)" >>"$(path stdout)" ;;
    frames) $RUN "$BUILD/bench/frames" "$(path model)" 16 16 "--route bicubic" </dev/null >>"$(path stdout)" ;;
    preload) (cd "$work/there" &&
        $RUN "$built/bench/preload" --workload none --json "$(path json)" >>"$(path stdout)") ;;
    esac 2>"$work/message"
}

# --- the cases -------------------------------------------------------------------------------------------

# fresh READS WRITES: a folder of them all; what is written holds something old.
fresh() {
    rm -rf "$dir" && mkdir "$dir" || exit 1
    for role in $1; do cp "$work/given/$role" "$dir/$role"; done
    for role in $2; do echo "old $role" >"$dir/$role"; done
    written='' alias=''
}

state() {
    (cd "$dir" && ls -l | sed 's/^\(.\)[^ ]* *[0-9]* [^ ]* *[^ ]* *[0-9]* [A-Z][a-z]* *[0-9]* *[0-9:]* /\1 /' &&
        cksum ./* 2>/dev/null)
}

unchanged() { # PROGRAM: refused as one file, and nothing is different
    state >"$work/before"
    start "$1" </dev/null && { echo "not refused" >>"$work/message"; return 1; }
    state >"$work/after"
    grep -q "are the same file" "$work/message" && cmp "$work/before" "$work/after"
}

# by KIND: makes $alias a name of $dir/$other.
by() {
    target="$dir/$other"
    case $1 in
    name) alias=$target ;;
    spelling) alias="$dir/../run/./$other" ;;
    link) ln -s "$other" "$dir/alias$ending" && alias="$dir/alias$ending" ;;
    hard) ln "$target" "$dir/alias$ending" && alias="$dir/alias$ending" ;;
    new) rm -f "$target" "$dir/$written" && alias="$dir/../run/$other" ;;
    dangling) rm -f "$target" && ln -s "$other" "$dir/alias$ending" && alias="$dir/alias$ending" ;;
    esac
}

is_among() { # WORD LIST
    case " $2 " in *" $1 "*) true ;; *) false ;; esac
}

each_pair() { # PROGRAM READS WRITES
    for one in $3; do
        for other in $2 $3; do
            [ "$one" != "$other" ] && [ "$other" != stdout ] || continue
            ending=
            case $one in *.png) ending=.png ;; esac
            kinds="name spelling link hard"
            case $one$other in *.png*) kinds="link hard" ;; esac # names of y4m end otherwise
            # What standard output is appended to is always there.
            if is_among "$other" "$3" && [ "$one" != stdout ]; then kinds="$kinds dangling"; fi
            if is_among "$other" "$3" && [ "$one" != stdout ] && [ "$kinds" != "link hard dangling" ]; then
                kinds="$kinds new"
            fi
            for kind in $kinds; do
                fresh "$2" "$3"
                written=$one
                by "$kind"
                [ "$kind" = new ] || rm -f "$dir/$written"
                check "$1: $one is $other, by $kind" unchanged "$1"
            done
        done
    done
}

echo "$programs" | grep . >"$work/programs"
for line in $(echo "$benchmarks" | tr ' ' +); do
    name=${line%%|*}
    if [ -x "$BUILD/bench/$name" ]; then
        echo "$line" | tr + ' ' >>"$work/programs"
    else
        skip "$name: $BUILD/bench/$name is not built"
    fi
done
while IFS='|' read -r program reads writes <&3; do
    fresh "$reads" "$writes"
    check "$program runs when all differ" start "$program"
    each_pair "$program" "$reads" "$writes"
done 3<"$work/programs"

# --- refused for other reasons ---------------------------------------------------------------------------

video="input reference model"
results="output map stats recorded trace"

kept() { # TEXT PROGRAM: refused with that, and nothing is different
    state >"$work/before"
    start "$2" </dev/null && return 1
    state >"$work/after"
    grep -q "$1" "$work/message" && cmp "$work/before" "$work/after"
}

fresh "$video" "$results"
echo "no video" >"$dir/input"
check "no y4m: nothing is touched" kept "not a YUV4MPEG2" video_sr
fresh "$video" ""
echo "no video" >"$dir/input"
check "... and nothing is left behind" kept "not a YUV4MPEG2" video_sr
fresh "$video" "$results"
cp "$dir/input" "$dir/reference"
check "a reference of another size: nothing is touched" kept "the reference is 64x48" video_sr
fresh "$video" "$results"
head -c 20000 models/sr2x_video.gguf >"$dir/model"
check "a model cut short: nothing is touched" kept "model" video_sr
fresh "$video" "$results"
chmod 000 "$dir/reference"
if [ ! -r "$dir/reference" ]; then
    check "a reference that cannot be read: nothing is touched" kept "Permission denied" video_sr
fi
chmod 600 "$dir/reference"
fresh "$video" "$results"
rm "$dir/trace" && mkdir "$dir/trace"
check "a trace that is a folder: nothing is touched" kept "Is a directory" video_sr
fresh "text" "recorded trace stdout"
head -c 200000 models/moe_text.gguf >"$dir/text"
check "a text model cut short: nothing is touched" kept "text" moe_text
fresh "profile" "trace"
head -c 100 "$work/given/profile" >"$dir/profile"
check "a profile cut in its header: nothing is touched" kept "profile" brainstorm_trace
fresh "before after whole" "output"
cp "$work/given/input" "$dir/whole"
check "pictures of different sizes: nothing is touched" kept "of another size" demo_pictures
fresh "input" "output"
head -n 1 "$work/given/input" | sed 's/W64 H48/W3 H3/' >"$dir/input"
check "a picture too small to halve: nothing is touched" kept "smaller than 4 x 4" halve
for program in video_sr halve; do
    fresh "$video" "$results"
    head -n 1 "$work/given/input" >"$dir/input"
    check "$program, a header without a frame: nothing is touched" kept "there is not a single frame in it" $program
    fresh "$video" "$results"
    head -c 1000 "$work/given/input" >"$dir/input"
    check "$program, a first frame cut short: nothing is touched" kept "inside a frame" $program
done
fresh "$video" "$results"
head -n 1 "$work/given/reference" >"$dir/reference"
check "a reference without a frame: nothing is touched" kept "fewer frames" video_sr

# 8192 x 4096 pixels: the network that enlarges by bicubic alone takes little, the frames 250 MB.
memory() {
    fresh "model" "output"
    echo "YUV4MPEG2 W8192 H4096 F1:1 Ip C420jpeg" >"$dir/input"
    state >"$work/before"
    (ulimit -v 120000 && $RUN "$BUILD/video_sr" --route bicubic --model "$dir/model" "$dir/input" "$dir/output") \
        2>"$work/message" && return 1
    state >"$work/after"
    grep -q "not enough memory" "$work/message" && cmp "$work/before" "$work/after"
}
cramped() { # PROGRAM: finds too little memory, and nothing is different
    state >"$work/before"
    (ulimit -v 120000 && start "$1" </dev/null) && return 1
    state >"$work/after"
    grep -q "out of memory" "$work/message" && cmp "$work/before" "$work/after"
}
if [ -z "$RUN" ] && (ulimit -v 120000 && "$BUILD/video_sr" --help) >/dev/null 2>&1; then
    check "too little memory: the old output stays" memory
    for program in halve crop; do
        fresh "input" "output"
        echo "YUV4MPEG2 W16000 H16000 F1:1 Ip C420jpeg" >"$dir/input"
        check "... of $program" cramped $program
    done
    fresh "" "output"
    check "... of demo_clip" cramped large_clip
    for large in "before after whole" "after whole" "whole"; do # the sizes of the others are compared later
        fresh "before after whole" "output"
        for role in $large; do echo "YUV4MPEG2 W16000 H16000 F1:1 Ip C420jpeg" >"$dir/$role"; done
        check "... of demo_pictures, $large" cramped demo_pictures
    done
    fresh "" "output"
    check "... of demo_clip, and nothing is left behind" cramped new_clip
else
    skip "too little memory: memory cannot be limited here"
fi

# --- what may be used twice ------------------------------------------------------------------------------

fresh "$video" ""
nowhere() {
    $RUN "$BUILD/video_sr" --quiet --model "$dir/model" --map /dev/null --stats /dev/null --profile /dev/null \
        --trace /dev/null \
        "$dir/input" /dev/null 2>"$work/message"
}
check "/dev/null takes everything" nowhere
twice() {
    $RUN "$BUILD/video_sr" --quiet --model "$dir/model" --map /dev/stdout --stats /dev/stdout \
        "$dir/input" /dev/stdout 2>"$work/message" |
        cat >"$dir/both"
    grep -a -q '"arena_bytes"' "$dir/both"
}
check "a pipe by its name takes more than one" twice
read_twice() {
    rm -f "$dir/both"
    $RUN "$BUILD/video_sr" --quiet --model "$dir/model" --reference "$dir/output" \
        "$dir/input" "$dir/both" 2>"$work/message"
}
$RUN "$BUILD/video_sr" --quiet --model "$dir/model" "$dir/input" "$dir/output" 2>/dev/null
check "what is only read may be read twice" $RUN "$BUILD/demo_pictures" \
    "$work/given/before" "$work/given/before" "$work/given/whole" "$dir/p.png"
check "an old result is replaced" read_twice
longer() {
    head -c 100000 /dev/zero >"$dir/both"
    read_twice && cmp "$dir/both" "$dir/output"
}
check "... whole, where the old one was longer" longer

rm -rf "$work"
check_end
