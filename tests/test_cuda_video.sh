#!/bin/sh
# test_cuda_video.sh - video_sr --device cuda: the pictures of the CPU within one code, and clear words where there is no GPU.
#
# Clips are tiny: without a GPU the emulation of the tests computes. MODEL=file.gguf tests another model; without one, or
# without the CUDA backend in this build, everything is skipped.
set -u
export LC_ALL=C
BUILD="${BUILD:-build}" RUN="${RUN:-}"
MODEL="${MODEL:-models/sr2x_video.gguf}"

skip() {
    echo "skipped: $1"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}
[ -f "$MODEL" ] || skip "no model file (MODEL=file.gguf names one)"
. tests/checks.sh
scratch cuda_video
$RUN "$BUILD/brainstorm" device >"$work/device" 2>"$work/message" || skip "$(cat "$work/message")"

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

# near CODES SHARE BYTES: the two videos, with their maps, differ by no more; samples have that many bytes.
near() {
    limit=$1 share=$2 sample=$3
    { cmp -l "$plain.map" "$out.map"; echo --; cmp -l "$plain" "$out"; } |
        awk -v width=$((2 * W)) -v height=$((2 * H)) -v sample="$sample" -v header=$(($(header "$plain"))) \
            -v map_header=$(($(header "$plain.map"))) -v cell="${cell:-128}" -v codes="$limit" -v frames="$frames" -v share="$share" -f tests/y4m_close.awk
}

# cells: of every route and exit in the last run's statistics.
cells() {
    sed -n 's/.*"cells": \([0-9]*\),.*/\1/p' "$stats" | paste -sd' ' -
}

# alike CODES SHARE BYTES ARGUMENT...: the GPU gives what the CPU does.
alike() {
    codes=$1 share=$2 sample=$3
    shift 3
    rm -f "$out"
    sr "$@" --stats "$stats" --map "$work/map.y4m" "$clip" "$plain" && mv "$work/map.y4m" "$plain.map" || return 1
    cells >"$work/cells"
    sr "$@" $half --device cuda --stats "$stats" --map "$work/map.y4m" "$clip" "$out" && mv "$work/map.y4m" "$out.map" || return 1
    near "$codes" "$share" "$sample" && { [ "$share" != 0.001 ] || [ "$(cut -d' ' -f1-4 "$work/cells")" = "$(cells | cut -d' ' -f1-4)" ]; }
}
half=

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
check "a clip with still, smooth and busy cells" alike 1 0.001 1 --quality 70
check "... reuse, bicubic and small were taken" took reuse bicubic small
check "... the statistics name the tier" [ "$(word tier)" = cuda ]
check "... and the GPU" [ "$(word name)" = "$(sed -n 's/^name *//p' "$work/device")" ]
shared=$(sed -n 's/^shared *\([0-9]*\) .*/\1/p' "$work/device")
planned() { # WHAT: as `brainstorm plan` says without a GPU
    $RUN "$BUILD/brainstorm" plan "$MODEL" --input frame=1x${H}x$W --device cuda --shared-bytes "$shared" | sed -n 's/^'"$1"' *\([0-9]*\)$/\1/p'
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
        head -c "$(($(wc -c <"$work/two.y4m")))" "$out" | cmp - "$work/two.y4m" && [ $(($(wc -c <"$work/two.y4m"))) -lt $(($(wc -c <"$out"))) ]
}
check "--frames stops there" first_two
short() {
    head -c $(($(wc -c <"$clip") - 7)) "$clip" >"$work/short.y4m"
    ! sr --quality 70 --device cuda "$work/short.y4m" "$work/whole.y4m" && grep -q "inside a frame" "$work/message" && cmp "$work/two.y4m" "$work/whole.y4m"
}
check "a short last frame is an error, after the whole ones" short
check "--no-reuse" alike 1 0.001 1 --quality 70 --no-reuse --frames 1
for order in breadth depth; do
    ordered() {
        sr --quality 70 --device cuda --order $order "$clip" "$work/again.y4m" && cmp "$out" "$work/again.y4m"
    }
    sr --quality 70 --device cuda "$clip" "$out"
    check "--order $order: the same bytes" ordered
done

make_clip 2 192 128
check "a clip for the large net and its exits" alike 1 0.001 1 --quality 94
check "... large, an early exit and the end were taken" took small large exit1 end
streamed() {
    sr --quality 94 --device cuda --slots 100% "$clip" "$work/again.y4m" && cmp "$out" "$work/again.y4m"
}
check "--slots: the same bytes" streamed

# --- one route, sizes, layouts ---------------------------------------------------------------------------

make_clip 1 96 64
for route in bicubic small large exit1 exit2; do
    check "--route $route" alike 1 0.001 1 --route $route
done
for size in 50x38 17x3 65x63 131x7; do
    make_clip 1 "${size%x*}" "${size#*x}" 2>/dev/null || continue
    check "a frame of $size" alike 1 0.001 1 --quality 93
done

rm -rf "$work"
check_end
