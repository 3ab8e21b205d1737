# y4m_close.awk - how far two 4:2:0 videos of one picture differ, cell by cell.
#
# Its input is `cmp -l` of the two maps (video_sr --map: chroma tells what each cell took), a line `--`, and `cmp -l` of
# the videos. A cell that took another way is counted, and left out from then on: what it remembers differs too.
#
#     awk -v width=192 -v height=128 -v sample=1 -v header=60 -v map_header=60 -v cell=128 -v codes=1 -v mean=0.001 \
#         -v frames=3
#         -v share=0.001
#
# width, height: of the videos; sample: bytes of one; header: bytes of the first line; cell: pixels of a cell's side;
# codes: the most that a luma sample may differ by; mean: likewise; share: of cells that may have taken another way.
# Says what it found; its exit status is 0 when that is within the limits.

function octal(text, i, n) {
    for (i = 1; i <= length(text); i++)
        n = 8 * n + substr(text, i, 1)
    return n + 0
}

# Sets frame, plane_sample (from the frame's first byte) and byte_of; false for what is no sample.
function locate(offset, head, at) {
    at = offset - 1 - head
    frame = int(at / (6 + frame_bytes))
    at = at % (6 + frame_bytes) - 6
    byte_of = at % sample
    plane_sample = int(at / sample)
    return offset > head && at >= 0
}

function cell_at(x, y) {
    return int(y / cell) * across + int(x / cell)
}

BEGIN {
    luma = width * height
    chroma_width = width / 2
    frame_bytes = sample * (luma + 2 * chroma_width * (height / 2))
    across = int((width + cell - 1) / cell)
    cells = frames * across * int((height + cell - 1) / cell)
}

$1 == "--" { videos = 1; next }

!locate($1, videos ? header : map_header) { strange++; next }

# Of the maps only chroma is looked at: their luma is the video's.
!videos {
    if (plane_sample < luma)
        next
    chroma = (plane_sample - luma) % (chroma_width * height / 2)
    took = cell_at(2 * (chroma % chroma_width), 2 * int(chroma / chroma_width))
    if (!((frame, took) in differs)) {
        differs[frame, took] = 1
        other++
    }
    if (!(took in since) || frame < since[took])
        since[took] = frame
    next
}

plane_sample >= luma { strange++; next }

{
    took = cell_at(plane_sample % width, int(plane_sample / width))
    if (!(took in since) || frame < since[took])
        by[frame * luma + plane_sample] += (octal($2) - octal($3)) * (byte_of ? 256 : 1)
}

END {
    for (at in by) {
        d = by[at] < 0 ? -by[at] : by[at]
        sum += d
        pixels += d > 0
        if (d > most)
            most = d
    }
    printf "differ: %d of %d cells took another way; %d of %d samples, by %d codes at most, %.5f in the mean",
        other, cells, pixels, frames * luma, most, sum / (frames * luma)
    printf strange ? "; and %d bytes that must not\n" : "\n", strange
    exit strange > 0 || most > codes || sum > mean * frames * luma || other > share * cells
}
