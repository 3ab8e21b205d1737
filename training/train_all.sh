#!/bin/sh
# Trains everything from the photographs to the two .npz files.
#
#   train_all.sh PHOTOS VALIDATION OUT [EVAL_SET ...]
#
# PHOTOS      folder of photographs to train on
# VALIDATION  folder of photographs held out, only watched
# EVAL_SET    folders of pictures for the final table (never trained on)
#
# Two single-threaded trainings run at a time. Minutes can be set: LARGE (95), SMALL (25),
# LARGE_VIDEO (55), SMALL_VIDEO (10).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
photos=$1 validation=$2 out=$3
shift 3
python=${PYTHON:-python3}
export OMP_NUM_THREADS=1
mkdir -p "$out"

run() { # run NAME MODEL MINUTES options...
    name=$1 model=$2 minutes=$3
    shift 3
    "$python" "$here/train.py" --model "$model" --minutes "$minutes" --out "$out/$name" \
        --expand 128 --monitor "$validation" "$@" > "$out/$name.out" 2>&1
}

"$python" "$here/data.py" --photos "$photos" --store "$out/clean"
"$python" "$here/video_data.py" --photos "$photos" --camera "$out/camera" --poor "$out/poor"

clean="--store $out/clean"
mixed="--store $out/clean=0.3 --store $out/camera=0.5 --store $out/poor=0.2"
run large large "${LARGE:-95}" $clean --lr 1e-3 --exit-weights 0.5 0.3 1.0 --squared-from 0.75 --exact-from 0.88 &
first=$!
run small small "${SMALL:-25}" $clean --lr 1.5e-3
run small_video small "${SMALL_VIDEO:-10}" $mixed --init "$out/small/ema.npz" --lr 7e-4
wait $first
run large_video large "${LARGE_VIDEO:-55}" $mixed --init "$out/large/ema.npz" --lr 7e-4 --exit-weights 0.5 0.3 1.0

export_weights() {
    "$python" "$here/export_weights.py" --small "$out/$1/ema.npz" --large "$out/$2/ema.npz" --out "$out/$3"
}
export_weights small large sr2x.npz
export_weights small_video large_video sr2x_video.npz

sets=""
for set in "$@"; do sets="$sets --set $set"; done
if [ -n "$sets" ]; then
    "$python" "$here/evaluate.py" --weights "$out/sr2x.npz" --weights "$out/sr2x_video.npz" $sets
fi
