"""Quality against time: the routed net at many settings of --quality, and beside each what an oracle would need.

    make bench && python3 bench/curve.py --model models/sr2x_video.gguf [--reuse] [CLIP...]

The oracle knows afterwards what each route would have given every tile: forced routes are run over the whole clip, each
tile's squared error against the original is taken, and per frame the cheapest choice of routes is found that reaches
the PSNR of the router in that frame (each tile minimises time + price x error; the price is bisected, and then single
tiles are lowered while the sum allows). Its tiles cost what tiles of that route cost when all tiles take it, by area;
deciding costs it nothing. With --reuse both may keep what a tile was before: the oracle's tile then has the error that
its own last result has against the new frame.

All set-ups take turns on each frame; times are processor milliseconds a frame, one thread, sums over frames.
Writes BUILD/bench/curve.csv, and curve.png where matplotlib is. Needs numpy.
"""

import argparse
import csv

import numpy as np

import luma

QUALITIES = (0, 50, 70, 80, 85, 90, 95, 98, 100)
ROUTES = ("bicubic", "small", "exit1", "exit2", "large")


def by_tile(values, side):
    """Sums of [h, w] over tiles of side x side: [down, across]."""
    down, across = (np.arange(0, n, side) for n in values.shape)
    return np.add.reduceat(np.add.reduceat(values, down, 0, dtype=np.float64), across, 1)


def tile_errors(picture, reference, side):
    return by_tile(np.square(picture.astype(np.float32) - reference), side)


class Measured:
    """What a clip gave: times and errors of the router and of every forced route, and the forced pictures."""

    def __init__(self, args, small, reference):
        tier = f" --tier {args.tier}" if args.tier else ""
        words = [f"--quality {q} --floor 0{tier}" for q in QUALITIES]
        words += [f"--route {r} --tile {args.tile}{tier}" for r in ROUTES]
        self.server = luma.Frames(args.model, small.shape[2], small.shape[1], words)
        self.tier = args.tier or self.server.tier()
        self.routed_ms, self.routing_ms, self.routed_error = (np.zeros((len(QUALITIES), len(small))) for _ in range(3))
        self.forced_ms = np.zeros((len(ROUTES), len(small)))
        self.pictures = np.zeros((len(small), len(ROUTES), *reference.shape[1:]), np.uint8)
        for f in range(len(small)):
            for warm in range(2 if f == 0 else 1):
                self.take(f, small[f], reference[f], fresh=f == 0 or not args.reuse)
        self.server.close()

    def take(self, f, frame, wanted, fresh):
        self.server.frame(frame)
        for i in range(len(QUALITIES) + len(ROUTES)):
            run = self.server.run(i, fresh)
            if i < len(QUALITIES):
                self.routed_ms[i, f], self.routing_ms[i, f] = run.cpu_ms, run.routing_ms
                self.routed_error[i, f] = tile_errors(self.server.result(i), wanted, 1 << 20).sum()
            else:
                self.forced_ms[i - len(QUALITIES), f] = run.cpu_ms
                self.pictures[f, i - len(QUALITIES)] = self.server.result(i)


# ------------------------------------------------------------------------------------------------- oracle


def cheapest(times, errors, wanted):
    """times, errors [routes, tiles]: the choice that costs least with errors of at most `wanted` in sum, by Lagrange.
    Where even the least errors are more than that: those."""
    best = lambda price: np.argmin(times + price * errors, 0)
    tiles = np.arange(errors.shape[1])
    total = lambda choice: errors[choice, tiles].sum()
    low, high = 1e-12, 1e6
    if total(best(low)) <= wanted:
        return lowered(times, errors, wanted, best(low))
    for _ in range(60):
        middle = np.sqrt(low * high)
        low, high = (low, middle) if total(best(middle)) <= wanted else (middle, high)
    return lowered(times, errors, wanted, best(high))


def lowered(times, errors, wanted, choice):
    """Prices leave a rest that is less than the next step of any tile; a cheaper route may fit into it somewhere."""
    tiles = np.arange(errors.shape[1])
    while True:
        saved, added = times[choice, tiles] - times, errors - errors[choice, tiles]
        saved[added > wanted - errors[choice, tiles].sum()] = 0
        route, tile = np.unravel_index(np.argmax(saved), saved.shape)
        if saved[route, tile] <= 0:
            return choice
        choice[tile] = route


def compose(pictures, choice, previous, side):
    """The frame whose tiles are those chosen; route -1 (last) keeps the tile of the previous frame."""
    _, height, width = pictures.shape
    grid = np.repeat(np.repeat(choice, side, 0), side, 1)[:height, :width]
    sources = pictures if previous is None else np.concatenate([pictures, previous[None]])
    return np.take_along_axis(sources, grid[None], 0)[0]


def oracle(m, reference, wanted_errors, tile, reuse):
    """(ms a frame, error a frame, tiles by route) for one setting."""
    side = 2 * tile
    area = by_tile(np.ones(reference.shape[1:]), side)
    ms = np.array([np.median(m.forced_ms[r]) for r in range(len(ROUTES))])  # of a whole frame
    times = ms[:, None] * (area / area.sum()).ravel()
    spent, errors, taken, previous = 0.0, 0.0, np.zeros(len(ROUTES) + 1), None
    for f in range(len(reference)):
        error = np.stack([tile_errors(p, reference[f], side).ravel() for p in m.pictures[f]])
        cost = times
        if reuse and previous is not None:
            error = np.vstack([error, tile_errors(previous, reference[f], side).ravel()])
            cost = np.vstack([times, np.zeros(area.size)])
        choice = cheapest(cost, error, wanted_errors[f])
        spent += cost[choice, np.arange(area.size)].sum()
        picture = compose(m.pictures[f], choice.reshape(area.shape), previous if reuse else None, side)
        errors += tile_errors(picture, reference[f], 1 << 20).sum()
        taken += np.bincount(choice, minlength=len(ROUTES) + 1)
        previous = picture
    return spent / len(reference), errors, taken / taken.sum()


# -------------------------------------------------------------------------------------------------- table


def psnr_of(error, samples):
    return 10 * np.log10(255**2 * samples / error) if error else float("inf")


def measure(args, path):
    small, reference = luma.halved_clip(path, args.frames)
    m = Measured(args, small, reference)
    samples, name = reference.size, luma.clip_name(path)
    forced_error = [sum(tile_errors(m.pictures[f, r], reference[f], 1 << 20).sum() for f in range(len(small)))
                    for r in range(len(ROUTES))]
    rows = [{"clip": name, "what": route, "ms": m.forced_ms[r].mean(), "psnr": psnr_of(forced_error[r], samples)}
            for r, route in enumerate(ROUTES)]
    print(f"\n{name}: {len(small)} frames {small.shape[2]}x{small.shape[1]} -> x2, tier {m.tier}, 1 thread,"
          f" tiles of {args.tile},"
          f" {'tiles may be reused' if args.reuse else 'nothing reused'}")
    print(f"{'':12} {'ms':>8} {'PSNR-Y':>8}   {'oracle ms':>9} {'PSNR-Y':>8} {'router/oracle':>13}   oracle's tiles: "
          + " ".join(ROUTES) + " reuse")
    for row in rows:
        print(f"{row['what']:12} {row['ms']:8.2f} {row['psnr']:8.3f}")
    for q, quality in enumerate(QUALITIES):
        ms, error, taken = oracle(m, reference, m.routed_error[q], args.tile, args.reuse)
        row = {"clip": name, "what": f"quality {quality}", "ms": m.routed_ms[q].mean(),
               "psnr": psnr_of(m.routed_error[q].sum(), samples),
               "routing_ms": m.routing_ms[q].mean(), "oracle_ms": ms, "oracle_psnr": psnr_of(error, samples)}
        rows.append(row)
        print(f"{row['what']:12} {row['ms']:8.2f} {row['psnr']:8.3f}   "
              f"{ms:9.2f} {row['oracle_psnr']:8.3f} {row['ms'] / max(ms, 1e-9):13.2f}   "
              + " ".join(f"{t:.0%}" for t in taken))
    return rows


def plot(rows, path):
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    clips = list(dict.fromkeys(row["clip"] for row in rows))
    figure, axes = pyplot.subplots(1, len(clips), figsize=(6 * len(clips), 4.5), squeeze=False)
    for axis, clip in zip(axes[0], clips):
        mine = [row for row in rows if row["clip"] == clip]
        routed, forced = ([row for row in mine if ("oracle_ms" in row) is kind] for kind in (True, False))
        axis.plot([r["ms"] for r in routed], [r["psnr"] for r in routed], "o-", label="routed")
        axis.plot([r["oracle_ms"] for r in routed], [r["oracle_psnr"] for r in routed], ".--", label="oracle")
        axis.plot([r["ms"] for r in forced], [r["psnr"] for r in forced], "s", label="one route for all")
        for row in forced:
            axis.annotate(row["what"], (row["ms"], row["psnr"]), textcoords="offset points", xytext=(4, -12))
        axis.set(title=clip, xlabel="ms a frame, one thread", ylabel="PSNR-Y, dB")
        axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    print(f"\n{path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("clips", nargs="*")
    parser.add_argument("--model", default="models/sr2x_video.gguf")
    parser.add_argument("--tier")
    parser.add_argument("--tile", type=int, default=64, help="the model's, in pixels of the small frame [64]")
    parser.add_argument("--frames", type=int, default=16, help="of each clip [16]")
    parser.add_argument("--reuse", action="store_true")
    args = parser.parse_args()
    rows = [row for path in luma.clips_given(args.clips) for row in measure(args, path)]
    with open(luma.scratch("curve.csv"), "w", newline="") as f:
        writer = csv.DictWriter(f, ["clip", "what", "ms", "psnr", "routing_ms", "oracle_ms", "oracle_psnr"])
        writer.writeheader()
        writer.writerows(rows)
    plot(rows, luma.scratch("curve.png"))


if __name__ == "__main__":
    main()
