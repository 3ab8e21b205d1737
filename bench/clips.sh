#!/bin/sh
# clips.sh: routed against static large on whole clips: program start to end, output to /dev/null.
#
#   bench/clips.sh [-n] [-m MODEL] [-q QUALITY] [-F FLOOR] [-t THREADS] [-r ROUNDS] [-f FRAMES] CLIP.y4m...
#
# A clip is the full-size reference: it is cropped to a multiple of 4 and halved first. -n: it is enlarged as it is, and
# static large's result is the reference: "kept" is then nothing, and "routed" the PSNR to it. Runs are interleaved;
# figures are medians over rounds, ratios are medians of the ratio within a round. "kept" is the share of static large's
# gain over bicubic, in dB of the mean over frames.
set -eu
BUILD=${BUILD:-build} MODEL=models/sr2x_video.gguf QUALITY=93 THREADS=1 ROUNDS=5 FRAMES=100000 FLOOR= NATIVE=
while getopts nm:q:F:t:r:f: option; do
  case $option in
  n) NATIVE=1 ;; F) FLOOR="--floor $OPTARG" ;; m) MODEL=$OPTARG ;; q) QUALITY=$OPTARG ;;
  t) THREADS=$OPTARG ;; r) ROUNDS=$OPTARG ;; f) FRAMES=$OPTARG ;; *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
work=$BUILD/bench/clips
mkdir -p "$work"

run() { # NAME INPUT OPTIONS...: one run, its seconds appended to NAME
  name=$1 input=$2
  shift 2
  "$BUILD/video_sr" --model "$MODEL" --threads "$THREADS" --frames "$FRAMES" --quiet --stats "$work/stats.json" "$@" \
    "$input" /dev/null
  sed -n 's/^ *"seconds": \([0-9.e+-]*\),.*/\1/p' "$work/stats.json" >>"$work/$name"
}
psnr() { # INPUT REFERENCE OPTIONS...
  input=$1 reference=$2
  shift 2
  "$BUILD/video_sr" --model "$MODEL" --threads "$THREADS" --frames "$FRAMES" --quiet --stats "$work/stats.json" \
    --reference "$reference" "$@" "$input" /dev/null 2>/dev/null
  sed -n 's/^ *"psnr_y": \([0-9.e+-]*\),.*/\1/p' "$work/stats.json"
}
median() { sort -g "$1" | awk '{v[NR] = $1} END {print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2}'; }
median_ratio() { paste "$1" "$2" | awk '{print $1 / $2}' >"$work/ratio"; median "$work/ratio"; }

echo "model $MODEL, quality $QUALITY${FLOOR:+, $FLOOR dB}${NATIVE:+, native size}, $THREADS thread(s), $ROUNDS rounds"
printf '%-28s %6s  %8s %8s %8s %6s   %21s %7s   %21s %7s\n' clip frames bicubic large routed kept \
  'direct: large, routed' faster 'fastest: large, routed' faster
for clip in "$@"; do
  full=$work/full.y4m half=$work/half.y4m
  "$BUILD/halve" --quiet --crop-only "$clip" "$full"
  "$BUILD/halve" --quiet "$clip" "$half"
  if [ "$NATIVE" ]; then
    mv "$full" "$half"
    "$BUILD/video_sr" --model "$MODEL" --threads "$THREADS" --frames "$FRAMES" --quiet --route large "$half" "$full"
  fi
  bicubic=$(psnr "$half" "$full" --route bicubic) large=$(psnr "$half" "$full" --route large)
  routed=$(psnr "$half" "$full" --quality "$QUALITY" $FLOOR)
  frames=$(sed -n 's/^ *"frames": \([0-9]*\),.*/\1/p' "$work/stats.json")
  rm -f "$work"/large_* "$work"/routed_*
  round=0
  while [ $round -lt "$ROUNDS" ]; do
    for conv in direct auto; do
      run large_$conv "$half" --route large --conv $conv
      run routed_$conv "$half" --quality "$QUALITY" $FLOOR --conv $conv
    done
    round=$((round + 1))
  done
  printf '%-28s %6s  %8s %8s %8s %5.1f%%   %10.3fs %8.3fs %6.2fx   %10.3fs %8.3fs %6.2fx\n' "$(basename "$clip" .y4m)" \
    "$frames" "$bicubic" "$large" "$routed" \
    "$(awk -v b="$bicubic" -v l="$large" -v r="$routed" \
      'BEGIN {print (l + 0 == l && l > b ? 100 * (r - b) / (l - b) : 0)}')" \
    "$(median "$work/large_direct")" "$(median "$work/routed_direct")" \
    "$(median_ratio "$work/large_direct" "$work/routed_direct")" \
    "$(median "$work/large_auto")" "$(median "$work/routed_auto")" \
    "$(median_ratio "$work/large_auto" "$work/routed_auto")"
done
