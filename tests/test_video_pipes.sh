#!/bin/sh
# tags: plain
# test_video_pipes.sh - the pipes that docs/video_sr.md shows do what the page says, word for word.
#
# Each is copied from the page and run twice: with programs of those names that only read and write y4m, so that the
# shell's part is tested everywhere; and with the real ones, where they are installed, on a clip whose rows a decoder
# pads. Owns: its copies. Must never open a window.
set -u
export LC_ALL=C
BUILD="${BUILD:-build}" RUN="${RUN:-}"
. tests/checks.sh
[ -f models/sr2x_video.gguf ] || { echo "skipped: no model file"; echo "0 passed, 0 failed, 1 skipped"; exit 0; }
scratch video_pipes
case $BUILD in /*) built=$BUILD ;; *) built=$PWD/$BUILD ;; esac
mkdir "$work/build" "$work/stubs"
printf '#!/bin/sh\nexec %s "%s/video_sr" --model "%s/models/sr2x_video.gguf" "$@"\n' "$RUN" "$built" "$PWD" \
    >"$work/build/video_sr"
cat >"$work/stubs/gst-launch-1.0" <<'END'
#!/bin/sh
case "$*" in
"-q filesrc location=in.mp4 ! decodebin ! "*" ! y4menc ! fdsink fd=1") cat clip.y4m ;;
"-q fdsrc fd=0 ! y4mdec ! "*) cat >out.y4m ;;
*) echo "not understood: $*" >&2 && exit 1 ;;
esac
END
cat >"$work/stubs/ffmpeg" <<'END'
#!/bin/sh
case "$*" in
*"-i in.mp4 "*"-f yuv4mpegpipe -") cat clip.y4m ;;
*"-f yuv4mpegpipe -i - -i in.mp4 "*" out.mp4") cat >out.y4m ;;
*) echo "not understood: $*" >&2 && exit 1 ;;
esac
END
chmod +x "$work/build/video_sr" "$work"/stubs/*
$RUN "$BUILD/demo_clip" --quiet --frames 2 --width 96 --height 72 "$work/clip.y4m" &&
    "$work/build/video_sr" --quiet "$work/clip.y4m" "$work/doubled.y4m" || exit 1

# recipe WORD: the indented block of the page that holds the word.
recipe() {
    awk -v word="$1" '/^    / { block = block substr($0, 5) "\n"; next }
        { if (index(block, word)) { printf "%s", block; exit } block = "" }' docs/video_sr.md
}

# as_written WORD: whether the block, pasted into a shell, gives what the program gives.
as_written() {
    recipe "$1" >"$work/recipe.sh"
    rm -f "$work/out.y4m"
    (cd "$work" && PATH="$PWD/stubs:$PATH" sh -e recipe.sh 2>message) && cmp "$work/out.y4m" "$work/doubled.y4m" \
        >>"$work/message"
}
check "the GStreamer pipe, as it is written" as_written gst-launch-1.0
check "the ffmpeg pipe, as it is written" as_written ffmpeg

# --- with the programs ---------------------------------------------------------------------------------------

# is_doubled FILE: a video of twice the clip's size, of its frames.
is_doubled() {
    ffmpeg -v error -i "$1" -pix_fmt yuv420p -f yuv4mpegpipe - >"$work/read.y4m" 2>>"$work/message" &&
        head -n 1 "$work/read.y4m" | grep -a -q 'W384 H216 ' && [ "$(grep -a -c 'FRAME$' "$work/read.y4m")" -ge 3 ]
}
with_ffmpeg() {
    recipe ffmpeg >"$work/recipe.sh"
    (cd "$work" && sh -e recipe.sh 2>message) && is_doubled "$work/out.mp4"
}
with_gstreamer() {
    recipe gst-launch-1.0 | sed 's/autovideosink/video\/x-raw,format=I420 ! y4menc ! filesink location=shown.y4m/' \
        >"$work/recipe.sh"
    (cd "$work" && sh -e recipe.sh 2>message) && is_doubled "$work/shown.y4m"
}
if have ffmpeg && $RUN "$BUILD/demo_clip" --quiet --frames 3 --width 192 --height 108 "$work/in.y4m" &&
    ffmpeg -v error -i "$work/in.y4m" -c:v libx264 -pix_fmt yuv420p "$work/in.mp4" 2>"$work/message"; then
    check "the ffmpeg pipe, with ffmpeg" with_ffmpeg
    if have gst-launch-1.0; then
        check "the GStreamer pipe, with GStreamer" with_gstreamer
    else
        skip "the GStreamer pipe, with GStreamer: it is not installed"
    fi
else
    skip "both pipes with their programs: there is no ffmpeg that makes H.264"
fi

rm -rf "$work"
check_end
