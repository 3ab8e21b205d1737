#!/bin/sh
# demo.sh [clips|double] - what routing gains and costs on this machine. `make demo` calls it, in the repository's root:
# for the clips while the library is still compiled, then to double them.
#
# A clip is halved, then doubled three ways: bicubic, the large net for every tile (static), and routed. Quality is
# measured against the clip itself, the three ways beside each other; time in runs of their own: one way after the
# other, ROUNDS times, medians. Needs nothing but the built programs. Everything lands in $BUILD/demo/.
#   CLIP=file.y4m    another clip than the rendered one (its first FRAMES frames)
#   MODEL QUALITY THREADS FRAMES ROUNDS [see below]
set -eu
export LC_ALL=C
BUILD="${BUILD:-build}" RUN="${RUN:-}" CLIP="${CLIP:-}"
MODEL="${MODEL:-models/sr2x_video.gguf}" QUALITY="${QUALITY:-93}" THREADS="${THREADS:-1}"
FRAMES="${FRAMES:-32}" ROUNDS="${ROUNDS:-1}"
out="$BUILD/demo"
ways="bicubic large auto"
mkdir -p "$out"

what="${1:-clips double}"
if [ ! -f "$MODEL" ]; then
    echo "demo: $MODEL is not here (MODEL=file.gguf names another)" >&2
    exit 1
fi

# --- the clip --------------------------------------------------------------------------------------------

clips() {
    if [ -n "$CLIP" ]; then
        echo "clip: $CLIP"
    else
        CLIP="$out/clip.y4m"
        echo "clip: rendering a street (CLIP=file.y4m takes another)"
        $RUN "$BUILD/demo_clip" --quiet --frames "$FRAMES" "$CLIP"
    fi
    $RUN "$BUILD/halve" --quiet --crop-only "$CLIP" "$out/reference.y4m"
    $RUN "$BUILD/halve" --quiet "$CLIP" "$out/half.y4m"
}
[ "$what" = double ] || clips
[ "$what" != clips ] || exit 0

# --- the runs --------------------------------------------------------------------------------------------

# video_sr WAY STATS OUTPUT OPTION...
double() {
    way=$1 stats=$2 output=$3
    shift 3
    $RUN "$BUILD/video_sr" --quiet --model "$MODEL" --quality "$QUALITY" --threads "$THREADS" --frames "$FRAMES" \
        --route "$way" --stats "$stats" "$@" "$out/half.y4m" "$output"
}

# field FILE KEY: the number of a key that stands in a line of its own.
field() {
    sed -n 's/^  "'"$2"'": "*\([^",]*\)"*,*$/\1/p' "$1"
}

# route FILE NAME: percent of the tiles that took it.
route() {
    sed -n 's/^    "'"$2"'": .*"share": \([^,}]*\).*/\1/p' "$1" | awk '{ printf "%.0f", 100 * $1 }'
}

# median WAY: seconds of the network.
median() {
    cat "$out/$1".seconds | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

echo "doubling: $ways"
runs=
for way in $ways; do
    double "$way" "$out/$way.json" "$out/$way.y4m" --reference "$out/reference.y4m" \
      --map "$out/map_$way.png" 2>"$out/$way.log" &
    runs="$runs $way:$!"
    : >"$out/$way.seconds"
done
for run in $runs; do
    wait "${run#*:}" || { cat "$out/${run%:*}.log" >&2; exit 1; }
done
rm -f "$out/map_bicubic.png" "$out/map_large.png" # one route: nothing to see
mv "$out/map_auto.png" "$out/route_map.png"

echo "timing: one after the other, ROUNDS=$ROUNDS"
round=0
while [ "$round" -lt "$ROUNDS" ]; do
    for way in $ways; do
        double "$way" "$out/time.json" /dev/null
        field "$out/time.json" seconds_network >>"$out/$way.seconds"
    done
    round=$((round + 1))
done

# --- what came out ---------------------------------------------------------------------------------------

# row WAY LABEL
row() {
    json="$out/$1.json"
    shares='     -       -       -       -'
    [ "$1" != auto ] || shares=$(for r in reuse bicubic small large; do printf '%5s %% ' "$(route "$json" $r)"; done)
    awk -v label="$2" -v psnr="$(field "$json" psnr_y)" -v ssim="$(field "$json" ssim_y)" -v s="$(median "$1")" \
        -v static="$(median large)" -v frames="$(field "$json" frames)" -v shares="$shares" \
        -v bytes="$(field "$json" arena_bytes_planned)" 'BEGIN {
            gain = (s > 0) ? static / s : 0
            printf "%-14s %6.2f dB  %.4f  %8.3f s %9.2f ms %8.2f x   %-31s %8.2f MiB\n",
                label, psnr, ssim, s, 1000 * s / frames, gain, shares, bytes / 1048576 }'
}

json="$out/auto.json"
echo
echo "$(field "$json" frames) frames to $(field "$json" width)x$(field "$json" height)," \
  "$(field "$json" threads) thread(s)," \
    "$(field "$json" tier), quality $QUALITY, $(basename "$MODEL")"
echo
echo "                  PSNR-Y    SSIM     network    a frame   speed-up   reuse  bicubic  small  large      arenas"
row bicubic bicubic
row large 'static large'
row auto routed
awk -v b="$(field "$out/bicubic.json" psnr_y)" -v l="$(field "$out/large.json" psnr_y)" -v r="$(field "$json" psnr_y)" \
    'BEGIN {
      if (l > b) printf "\nrouting keeps %.1f %% of what the large net gains over bicubic\n", 100 * (r - b) / (l - b)
    }'

$RUN "$BUILD/demo_pictures" --before bicubic --after routed "$out/bicubic.y4m" "$out/auto.y4m" "$out/reference.y4m" \
    "$out/before_after.png"
mv "$out/large.y4m" "$out/static.y4m"
mv "$out/auto.y4m" "$out/routed.y4m"
rm -f "$out"/*.seconds "$out"/*.log "$out/time.json"
echo
echo "pictures: $out/before_after.png  $out/route_map.png"
echo "videos:   $out/bicubic.y4m  $out/static.y4m  $out/routed.y4m  $out/reference.y4m"
