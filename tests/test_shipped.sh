#!/bin/sh
# tags: asan
# test_shipped.sh - programs find the models that come with them from wherever they are started, installed or in their
# build.
set -u
export LC_ALL=C
BUILD="${BUILD:-build}" RUN="${RUN:-}"
. tests/checks.sh
scratch shipped
if [ ! -f models/sr2x_video.gguf ] || [ ! -f models/moe_text.gguf ]; then
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
work=$(cd "$work" && pwd)
BUILD=$(cd "$BUILD" && pwd)
models=$(pwd)/models
clip="$work/clip.y4m"
$RUN "$BUILD/demo_clip" --quiet --frames 1 --width 64 --height 48 "$clip" || exit 1

# from FOLDER PROGRAM: both programs, started there, in that spelling.
doubles() {
    (cd "$1" && $RUN "$2/video_sr" --quiet "$clip" "$work/out.y4m" 2>"$work/message" && [ -s "$work/out.y4m" ])
}
writes() {
    (cd "$1" && $RUN "$2/moe_text" --length 5 2>"$work/message" >"$work/text" && [ -s "$work/text" ])
}
both() { rm -f "$work/out.y4m" "$work/text" && doubles "$1" "$2" && writes "$1" "$2"; }

mkdir -p "$work/installed/bin" "$work/installed/share/brainstorm" "$work/tree/build" "$work/alone" "$work/here/models" \
    "$work/links"
for place in installed/bin tree/build alone; do cp "$BUILD/video_sr" "$BUILD/moe_text" "$work/$place/" || exit 1; done
cp "$models"/*.gguf "$work/installed/share/brainstorm/"
cp -R "$models" "$work/tree/models"
cp "$models"/*.gguf "$work/here/models/"
ln -s "$work/installed/bin/video_sr" "$work/installed/bin/moe_text" "$work/links/"

check "installed, from /" both / "$work/installed/bin"
check "installed, from beside it" both "$work/installed" ./bin
check "... through a link" both / "$work/links"
by_path() { (cd / && PATH="$work/installed/bin:$PATH" && video_sr --quiet "$clip" "$work/out.y4m" 2>"$work/message"); }
if [ -z "$RUN" ]; then check "... found through PATH" by_path; fi
check "in a build folder, from /" both / "$work/tree/build"
check "alone, from where models lie" both "$work/here" "$work/alone"
echo "no model" >"$work/here/models/sr2x_video.gguf"
echo "no model" >"$work/here/models/moe_text.gguf"
check "what was installed comes before what lies here" both "$work/here" "$work/installed/bin"
nowhere() {
    ! doubles / "$work/alone" &&
        grep -q "^video_sr: no sr2x_video.gguf in .*/alone/../models, ../share/brainstorm or models: --model FILE" \
            "$work/message" &&
        ! writes / "$work/alone" && grep -q "^moe_text: no moe_text.gguf in " "$work/message"
}
check "nowhere: it is said where it was sought" nowhere
rm -f "$work/tree/models/sr2x_video.gguf"
check "a model that is named is taken, wherever it is" $RUN "$work/tree/build/video_sr" --quiet \
    --model "$models/sr2x_video.gguf" "$clip" /dev/null

rm -rf "$work"
check_end
