#!/bin/sh
# tags: minutes emulated
# test_cuda_video.sh - video_sr --device cuda: the pictures of the CPU within one code, and clear words where there is
# no GPU.
#
# Clips are tiny: without a GPU the emulation of the tests computes. MODEL=file.gguf tests another model; without one,
# or without the CUDA backend in this build, everything is skipped.
set -u
export LC_ALL=C
BUILD="${BUILD:-build}" RUN="${RUN:-}"
MODEL="${MODEL:-models/sr2x_video.gguf}"

. tests/checks.sh

without() { # REASON: nothing can be tested
    skip "$1"
    check_end
    exit
}
[ -f "$MODEL" ] || without "no model file (MODEL=file.gguf names one)"
scratch cuda_video
$RUN "$BUILD/brainstorm" device >"$work/device" 2>"$work/message" || without "$(cat "$work/message")"

out="$work/out.y4m" plain="$work/plain.y4m" stats="$work/stats.json"

# make_clip FRAMES WIDTH HEIGHT: in $clip, with $W $H.
make_clip() {
    frames=$1 W=$2 H=$3 clip="$work/clip$2x$3.y4m"
    $RUN "$BUILD/demo_clip" --quiet --frames "$1" --width "$2" --height "$3" "$clip"
}

# sr ARGUMENT...: its exit status; standard error goes to $work/message.
sr() {
    $RUN "$BUILD/video_sr" --quiet --model "$MODEL" "$@" 2>"$work/message"
}

header() {
    head -n 1 "$1" | wc -c
}

# near: the two videos, with their maps, differ by no more than $codes, $mean and $share allow; samples have $sample
# bytes.
near() {
    { cmp -l "$plain.map" "$out.map"; echo --; cmp -l "$plain" "$out"; } |
        awk -v width=$((2 * W)) -v height=$((2 * H)) -v sample=$sample -v header=$(($(header "$plain"))) \
            -v map_header=$(($(header "$plain.map"))) \
            -v cell=128 -v codes=$codes -v mean=$mean -v frames=$frames -v share=$share -f tests/y4m_close.awk
}

# cells: of every route and exit in the last run's statistics.
cells() {
    sed -n 's/.*"cells": \([0-9]*\),.*/\1/p' "$stats" | paste -sd' ' -
}

routes() {
    cells | cut -d' ' -f1-4
}

# computes FILE ARGUMENT...: the video and its map.
computes() {
    file=$1
    shift
    rm -f "$file" "$file.map"
    sr "$@" --stats "$stats" --map "$work/map.y4m" "$clip" "$file" && mv "$work/map.y4m" "$file.map"
}

# alike ARGUMENT...: the GPU gives what the CPU does, and takes as many cells each way. $half: how the GPU keeps
# numbers.
alike() {
    computes "$plain" "$@" || return 1
    expected=$(routes)
    computes "$out" "$@" $half --device cuda && near && [ "$(routes)" = "$expected" ]
}
f32() { half='' codes=1 mean=0.001 share=0.001; }
f16() { half=--half codes=2 mean=0.1 share=0.02; }
sample=1
f32

# took KIND...: how many cells took which way on the GPU; each named kind must be among them.
took() {
    set -- "$@" -- $(cells)
    kinds=
    while [ "$1" != -- ]; do kinds="$kinds $1"; shift; done
    shift
    for kind in $kinds; do
        case $kind in
        reuse) n=$1 ;; bicubic) n=$2 ;; small) n=$3 ;; large) n=$4 ;; exit1) n=$5 ;; exit2) n=$6 ;; end) n=$7 ;;
        esac
        [ "$n" -gt 0 ] || return 1
    done
}

# number KEY, word KEY: of the statistics of the last run.
number() {
    sed -n 's/.*"'"$1"'": \([0-9.]*\)[,}].*/\1/p' "$stats" | head -n 1
}
word() {
    sed -n 's/.*"'"$1"'": "\([^"]*\)"[,}].*/\1/p' "$stats" | head -n 1
}

# --- routed ----------------------------------------------------------------------------------------------

make_clip 3 144 80
check "a clip with still, smooth and busy cells" alike --quality 70
check "... reuse, bicubic and small were taken" took reuse bicubic small
check "... the statistics name the tier" [ "$(word tier)" = cuda ]
check "... and the GPU" [ "$(word name)" = "$(sed -n 's/^name *//p' "$work/device")" ]
shared=$(sed -n 's/^shared *\([0-9]*\) .*/\1/p' "$work/device")
planned() { # WHAT: as `brainstorm plan` says without a GPU
    $RUN "$BUILD/brainstorm" plan "$MODEL" --input frame=1x${H}x$W --device cuda --shared-bytes "$shared" |
        sed -n 's/^'"$1"' *\([0-9]*\)$/\1/p'
}
check "... and the bytes that were planned on it" [ "$(number device_bytes)" -eq "$(planned device)" ]
check "... and those that are pinned" [ "$(number pinned_bytes)" -eq "$(planned pinned)" ]
check "... and what was copied" [ "$(number copied_in_bytes)" -eq $((frames * (W * H + 4))) ]
check "... and back" [ "$(number copied_out_bytes)" -eq $((frames * 4 * W * H)) ]
keep() {
    sr --quality 70 --device cuda "$clip" "$work/again.y4m" && cmp "$out" "$work/again.y4m"
}
check "the same bytes again" keep
piped() {
    cat "$clip" | sr --quality 70 --device cuda - - | cmp - "$out"
}
check "through pipes too" piped
first_two() {
    sr --quality 70 --device cuda --frames 2 "$clip" "$work/two.y4m" &&
        head -c "$(($(wc -c <"$work/two.y4m")))" "$out" | cmp - "$work/two.y4m" &&
        [ $(($(wc -c <"$work/two.y4m"))) -lt $(($(wc -c <"$out"))) ]
}
check "--frames stops there" first_two
short() {
    head -c $(($(wc -c <"$clip") - 7)) "$clip" >"$work/short.y4m"
    ! sr --quality 70 --device cuda "$work/short.y4m" "$work/whole.y4m" && grep -q "inside a frame" "$work/message" &&
        cmp "$work/two.y4m" "$work/whole.y4m"
}
check "a short last frame is an error, after the whole ones" short
check "--no-reuse" alike --quality 70 --no-reuse --frames 1
for order in breadth depth; do
    ordered() {
        sr --quality 70 --device cuda --order $order "$clip" "$work/again.y4m" && cmp "$out" "$work/again.y4m"
    }
    sr --quality 70 --device cuda "$clip" "$out"
    check "--order $order: the same bytes" ordered
done

make_clip 2 192 128
check "a clip for the large net and its exits" alike --quality 94
check "... large, an early exit and the end were taken" took small large exit1 end
streamed() {
    sr --quality 94 --device cuda --stats "$stats" --slots "$@" "$clip" "$work/again.y4m" &&
        cmp "$out" "$work/again.y4m"
}
check "--slots 100%: the same bytes" streamed 100%
least=$(number least_bytes)
check "--slots $least: the same bytes" streamed "$least"
check "... and reads again and again" [ "$(number evictions)" -gt 0 ]
check "--slots $least --speculate off --lanes 1 --chunk 16K --check-records" \
    streamed "$least" --speculate off --lanes 1 --chunk 16K --check-records

# --- one route, sizes, layouts ---------------------------------------------------------------------------

make_clip 1 96 64
for route in bicubic small large exit1 exit2; do
    check "--route $route" alike --route $route
done
notices() {
    computes "$plain" --route large && computes "$out" --route small && ! near && cp "$plain.map" "$out.map" && ! near
}
check "the comparison tells one net from another" notices

# by_hand TAG WIDTH HEIGHT BYTES FILTER...: a frame made of a rendered clip's bytes, in $clip.
by_hand() {
    tag=$1 W=$2 H=$3 bytes=$4 source=$clip
    shift 4
    clip="$work/by_hand.y4m" frames=1
    {
        echo "YUV4MPEG2 W$W H$H F24:1 Ip C$tag"
        echo FRAME
        cat "$source" "$source" "$source" | tail -c +100 | head -c "$bytes" | "$@"
    } >"$clip.new"
    mv "$clip.new" "$clip"
}
for size in 50x38 17x3 65x63 131x7; do
    w=${size%x*} h=${size#*x}
    make_clip 1 96 64
    by_hand 420jpeg $w $h $((w * h + 2 * ((w + 1) / 2) * ((h + 1) / 2))) cat
    check "a frame of $size" alike
done
make_clip 1 96 64
by_hand 420p10 72 40 $((72 * 40 * 3)) tr '\004-\377' '[\001*]' # two bytes a sample: codes of 0 to 771
sample=2
check "10 bits" alike --quality 90
check "... of the large net" alike --route large
sample=1

# --- f16 -------------------------------------------------------------------------------------------------

f16
make_clip 3 144 80
check "--half: a clip with still, smooth and busy cells" alike --quality 70
check "... the statistics say so" [ "$(word storage)" = f16 ]
bytes=$(number device_bytes)
make_clip 2 192 128
check "--half: a clip for the large net and its exits" alike --quality 94
make_clip 3 144 80
computes "$out" --quality 70 --device cuda
check "... it takes less memory than f32" [ "$bytes" -lt "$(number device_bytes)" ]

# --- however it is launched, wherever memory is ----------------------------------------------------------

make_clip 3 144 80
computes "$plain" --quality 70 --device cuda
for launch_mode in stream graph conditional; do
    same() {
        computes "$out" --quality 70 --device cuda --launch $launch_mode && cmp "$plain" "$out"
    }
    check "--launch $launch_mode: the same bytes" same
done
shared() { # 1: as on a board whose GPU shares the CPU's memory
    CUDA_CPU_INTEGRATED=1 computes "$out" --quality 70 --device cuda && cmp "$plain" "$out" &&
        [ "$(number device_bytes)" -lt "$1" ]
}
if grep -q "CUDA on CPU" "$work/device"; then
    computes "$out" --quality 70 --device cuda
    bytes=$(number device_bytes)
    check "memory that is shared is not held twice: the same bytes" shared "$bytes"
fi

# --- where it cannot -------------------------------------------------------------------------------------

# without COMMAND...: as on a machine without a GPU; for the emulation and for CUDA.
without() {
    CUDA_CPU_DEVICES=0 CUDA_VISIBLE_DEVICES=-1 "$@"
}

# refuses STATUS TEXT ARGUMENT...: one line that holds the text, that status, and no output.
refuses() {
    status=$1 text=$2
    shift 2
    rm -f "$out"
    sr "$@" "$clip" "$out"
    [ $? -eq "$status" ] && grep -q -- "$text" "$work/message" && [ "$(wc -l <"$work/message")" -eq 1 ] &&
        [ ! -e "$out" ]
}
make_clip 1 96 64
check "without a GPU --device cuda is refused" without refuses 1 "--device cuda: .*no CUDA device" --device cuda
fallback() {
    computes "$plain" || return 1
    without sr --device cuda --half --fallback --stats "$stats" "$clip" "$out" && cmp "$plain" "$out" &&
        [ "$(wc -l <"$work/message")" -eq 1 ] &&
        grep -q "no CUDA device.*; the CPU computes" "$work/message" && [ "$(word tier)" != cuda ] &&
        grep -q '"device": null' "$stats"
}
check "--fallback lets the CPU compute, and says so" fallback
silent() {
    computes "$out" --device cuda --fallback && [ ! -s "$work/message" ] && [ "$(word tier)" = cuda ]
}
check "... where there is a GPU it changes nothing" silent
check "--device must be known" refuses 2 "expected cpu or cuda" --device gpu
check "--half is for a GPU" refuses 2 "--half is for --device cuda" --half
check "--launch is for a GPU" refuses 2 "--launch is for --device cuda" --launch graph
check "--launch must be known" refuses 2 "expected auto, stream" --device cuda --launch fast
check "--fallback is for a GPU" refuses 2 "--fallback is for --device cuda" --device cpu --fallback
check "another model's file is the model's error" refuses 1 "^video_sr: tests/checks.sh: " --device cuda \
    --model tests/checks.sh
check "too few slots are refused" refuses 1 "slots" --device cuda --slots 1
device() {
    ! $RUN "$BUILD/brainstorm" device >"$work/told" 2>"$work/message" && [ ! -s "$work/told" ] &&
        grep -q "no CUDA device" "$work/message"
}
check "brainstorm device says that there is none" without device
plan_without() {
    $RUN "$BUILD/brainstorm" plan "$MODEL" --device cuda --half >"$work/told" && grep -q "^tier cuda, f16" "$work/told"
}
check "brainstorm plan --device cuda needs none" without plan_without
if grep -q "CUDA on CPU" "$work/device"; then # a real GPU may have the room
    echo "YUV4MPEG2 W4000 H8000 F24:1 Ip C420jpeg" >"$work/huge.y4m"
    clip="$work/huge.y4m"
    check "too little memory on it is an error" refuses 1 "allocating on the device" --device cuda
fi

rm -rf "$work"
check_end
