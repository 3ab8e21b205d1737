"""What a floor gives away: the routed net at floors of 50 to 60 dB against its own large net, at native size and
halved.

    make bench && python3 bench/floor.py [--frames N] [--floors 0,55,...] CLIP...

All set-ups take turns on each frame. "faster" is processor time of the network, one thread, sum over frames, static
large over routed. The result of static large is what is compared with, frame by frame and tile by tile (128 x 128 of
the output); a halved clip has an original too: "kept" is the share of static large's gain over bicubic, in dB of the
mean over frames. Writes BUILD/bench/floor.csv, and prints the table as markdown. Needs numpy.
"""

import argparse
import csv

import numpy as np

import luma

TILE = 128  # pixels of the output
ROUTES = ("reuse", "bicubic", "small", "large")


def tile_db(picture, reference):
    """PSNR of each tile, and that of the whole."""
    squares = np.square(picture.astype(np.float32) - reference)
    starts = [np.arange(0, n, TILE) for n in squares.shape]
    sums = np.add.reduceat(np.add.reduceat(squares, starts[0], 0, dtype=np.float64), starts[1], 1)
    down, across = (np.diff(np.append(s, n)) for s, n in zip(starts, squares.shape))
    db = lambda error: 10 * np.log10(255**2 / np.maximum(error, 1e-5))
    return db(sums / np.outer(down, across)).ravel(), float(db(squares.mean(dtype=np.float64)))


class Setup:
    """What one set-up gave, over all frames."""

    def __init__(self):
        self.cpu_ms, self.frames, self.tiles, self.truth, self.last = 0.0, [], [], [], None

    def take(self, run, picture, large, original):
        self.cpu_ms += run.cpu_ms
        self.last = run
        tiles, frame = tile_db(picture, large)
        self.tiles.append(tiles)
        self.frames.append(frame)
        if original is not None:
            self.truth.append(luma.psnr(picture, original))


def measure(args, frames, originals, floors):
    """One Setup for static large, bicubic and every floor; originals: None at native size."""
    words = ["--route large", "--route bicubic"] + [f"--quality {args.quality} --floor {f}" for f in floors]
    server = luma.Frames(args.model, frames.shape[2], frames.shape[1], words)
    setups = [Setup() for _ in words]
    for f, frame in enumerate(frames):
        server.frame(frame)
        for i, setup in enumerate(setups):
            run = server.run(i, fresh=f == 0)
            picture = server.result(i)
            if i == 0:
                large = picture
            setup.take(run, picture, large, None if originals is None else originals[f])
    server.close()
    return setups


def rows_of(name, size, floors, setups):
    large, bicubic = setups[:2]
    for floor, s in zip(floors, setups[2:]):
        shares = s.last.cells / s.last.cells.sum()
        row = {"clip": name, "size": size, "frames": len(s.frames), "floor": floor, "faster": large.cpu_ms / s.cpu_ms,
               **dict(zip(ROUTES, shares)), "least_frame_db": min(s.frames), "mean_frame_db": np.mean(s.frames),
               "tile_db_5_percent": np.percentile(np.concatenate(s.tiles), 5)}
        if s.truth:
            gain = np.mean(large.truth) - np.mean(bicubic.truth)
            row["kept"] = (np.mean(s.truth) - np.mean(bicubic.truth)) / gain
        yield row


def line(row):
    kept = f"{row['kept']:.1%}" if "kept" in row else ""
    return (f"| {row['clip']}, {row['size']} | {row['floor'] or 'none'} | {row['faster']:.1f}x | "
            + " / ".join(f"{100 * row[r]:.0f}" for r in ROUTES)
            + f" | {row['least_frame_db']:.1f} | {row['tile_db_5_percent']:.1f} | {kept} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("clips", nargs="*")
    parser.add_argument("--model", default="models/sr2x_video.gguf")
    parser.add_argument("--quality", type=float, default=93)
    parser.add_argument("--floors", default="0,50,52,54,55,56,58,60", help="dB; 0: none")
    parser.add_argument("--frames", type=int, help="of each clip [all]")
    parser.add_argument("--sizes", default="native,halved")
    args = parser.parse_args()
    floors = [int(f) if float(f).is_integer() else float(f) for f in map(float, args.floors.split(","))]
    rows = []
    print("| clip, size | floor, dB | faster than static large | " + " / ".join(ROUTES)
          + ", % | least frame, dB to large | tile, 5th percentile | kept |")
    print("|---|---|---|---|---|---|---|")
    for path in luma.clips_given(args.clips):
        small, full = luma.halved_clip(path, args.frames)
        for size in args.sizes.split(","):
            setups = measure(args, *((full, None) if size == "native" else (small, full)), floors)
            for row in rows_of(luma.clip_name(path), size, floors, setups):
                rows.append(row)
                print(line(row), flush=True)
    with open(luma.scratch("floor.csv"), "w", newline="") as f:
        writer = csv.DictWriter(f, [*rows[0], *(["kept"] if "kept" not in rows[0] else [])])
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
