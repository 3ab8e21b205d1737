"""Fit the routing data of the x2 luma model: loss tables, costs, exit predictors.

    python3 calibrate.py --weights sr2x.npz --photos GB82 [--more CID22] --out route_sr2x.npz [--video]

Written (read by tools/export_sr.py):

    route.energy  i32 [80,6]  estimated loss by bucket of the tile's energy: reuse, bicubic, small, and the large net
                              left at its first exit, at its second, at its end
    route.change  i32 [80,6]  the same by bucket of the tile's change; the router adds both, and for reuse the loss the
                              tile had when it was last computed
                              unit: 1/256 of a squared luma code, mean over the tile; in excess of the large net's end
    route.cost    i32 [6]     unit: 50 multiply-accumulates per low resolution pixel, halo included (or as --cost says)
    large.exitK.hidden.weight [16,32] .bias [16], large.exitK.out.weight [1,16] .bias [1]
                              score = log2(cost of going on to the end) - log2(predicted gain of it) - the predictor's
                              rms error, in the units above;
                              the tile leaves when score >= log2(cost per unit of loss), the router's price

Photographs of --photos should be held out from the training of the nets. Each fourth of them is kept from fitting too:
the report is about those. Nothing else is read, and the same input gives the same output.
"""

import argparse
import time

import numpy as np
import torch

import calib_fit as fit
import calib_sim as sim
import calib_tiles as tiles
import nets
from calib_tiles import BICUBIC, EXIT1, EXIT2, LAST, SMALL

MACS_PER_UNIT = 50
BICUBIC_COST = 9  # integer taps, rounding and stores: little arithmetic, measured against the nets
REUSE_COST = 1
SEED = 20
BUDGETS = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1, 0.15, 0.2, 0.3, 0.5)


# ---------------------------------------------------------------- costs


def layer_macs(net, depth, margin):
    """Multiply-accumulates per core pixel of the head and `depth` body layers when `margin` rings of the last one are
    still needed: earlier layers need more."""
    layers = [net.head, *net.body][: depth + 1]
    total, rings = 0.0, margin
    for layer in reversed(layers):
        total += layer.convolution.weight.numel() * (1 + 2 * rings / tiles.TILE) ** 2
        rings += layer.convolution.padding
    return total


def default_costs(model):
    """By counting. A tile that leaves early has already paid for the halo of the end: nobody knew it would."""
    def unit(macs):
        return BICUBIC_COST + macs / MACS_PER_UNIT

    small, large = model.small, model.large
    tail = large.tails[0].weight.numel()
    depth = len(large.body)
    ways = [unit(layer_macs(large, d, depth - d + 1) + tail) for d in large.exits]
    return sim.Costs(REUSE_COST, BICUBIC_COST,
                     unit(layer_macs(small, len(small.body), 1) + small.tails[0].weight.numel()), *ways)


def parse_costs(text, model):
    if not text:
        return default_costs(model)
    values = [float(v) for v in text.split(",")]
    if len(values) != 6:
        raise SystemExit("--cost wants six numbers: reuse,bicubic,small,exit1,exit2,large")
    return sim.Costs(*values)


# ---------------------------------------------------------------- fitting


def fit_energy(buckets, errors, size):
    excess = errors - errors[:, LAST:]
    columns = [np.zeros(size)] + [fit.fit_table(buckets, excess[:, way], size)
                                  for way in (BICUBIC, SMALL, EXIT1, EXIT2)] + [np.zeros(size)]
    for cheap in (3, 2, 1):  # where both are tiny, noise must not turn them round
        columns[cheap] = np.maximum(columns[cheap], columns[cheap + 1])
    return fit.table_codes(columns)


def fit_change(buckets, excess, size):
    column = fit.fit_table(buckets, excess, size)
    column[0] = 0
    return fit.table_codes([column] + [np.zeros(size)] * 5)


def gains(errors):
    """Of going on from either exit to the end, in router units [n,2]."""
    return (errors[:, [EXIT1, EXIT2]] - errors[:, LAST:]) * fit.LOSS_UNIT


def fit_predictors(pooled, errors, steps):
    gain = gains(errors)
    return [fit.train_predictor(pooled[:, k], gain[:, k], steps, seed=SEED + k) for k in range(2)]


# ---------------------------------------------------------------- reports


def report_table(name, buckets, columns, table):
    """columns: (label, path of the table, measured excess)."""
    print(f"\n{name}: mean excess (squared codes) measured -> table")
    buckets = np.minimum(buckets, len(table) - 1)
    for low in range(0, len(table), 6):
        inside = (buckets >= low) & (buckets < low + 6)
        parts = []
        for label, path, excess in columns:
            measured = f"{excess[inside].mean():9.3f}" if inside.any() else f"{'-':>9s}"
            rows = buckets[inside] if inside.any() else np.arange(low, min(low + 6, len(table)))
            parts.append(f"{label} {measured} -> {table[rows, path].mean() / fit.LOSS_UNIT:9.3f}")
        print(f"  buckets {low:2d}..{min(low + 5, len(table) - 1):2d}  {inside.sum():5d} tiles  " + "  ".join(parts))


def report_predictors(predictors, pooled, errors, costs):
    """On tiles that were not fitted: how well gains are told, and what leaving by them gives."""
    gain = gains(errors)
    told = np.stack([fit.predict(p, pooled[:, k]) for k, p in enumerate(predictors)], 1)
    for k in range(2):
        actual = np.log2(np.maximum(gain[:, k], fit.GAIN_FLOOR))
        print(f"  exit {k + 1}: correlation of log2 gain {np.corrcoef(told[:, k], actual)[0, 1]:.3f}, rms error "
              f"{np.sqrt(np.mean((told[:, k] - actual) ** 2)):.2f}, mean gain {gain[:, k].mean() / 256:.3f} told "
              f"{np.exp2(told[:, k]).mean() / 256:.3f}")
    ways = np.array([costs.exit1, costs.exit2, costs.last])
    ends = errors[:, [EXIT1, EXIT2, LAST]]
    delta = np.log2(costs.deltas())
    print(f"  {'log2 price':>10s} {'cost':>7s} {'mse':>8s} | oracle {'cost':>7s} {'mse':>8s}   "
          "(cost: share of the end's)")
    for price in range(-4, 6):  # log2 of cost per unit of loss
        leave = told <= delta - price
        way = np.where(leave[:, 0], 0, np.where(leave[:, 1], 1, 2))
        best = np.argmin(ways + 2.0**price * fit.LOSS_UNIT * ends, 1)
        values = [f(w) for w in (way, best) for f in
                  (lambda w: ways[w].mean() / costs.last, lambda w: ends[np.arange(len(w)), w].mean())]
        print(f"  {price:10d} {values[0]:7.3f} {values[1]:8.4f} | {'':6s} {values[2]:7.3f} {values[3]:8.4f}")
    print(f"  always: exit 1 {ends[:, 0].mean():.4f}, exit 2 {ends[:, 1].mean():.4f}, end {ends[:, 2].mean():.4f}")


def report_clips(clips, route, predictors, costs):
    print("\nbudget decision on clips made of held-out photographs; the budget is a share of what bicubic would lose")
    print("  (cost: share of the large net's; kept: of its gain over bicubic, in dB and in squared error; "
          "loss: in excess of it)")
    print("  budget   cost    psnr  kept  of mse  loss told/real |  reuse bicub small exit1 exit2  last (%)")
    gap = np.mean([np.mean(clip_errors(frames, BICUBIC) - clip_errors(frames, LAST)) for _, frames in clips])
    base = {way: np.mean([sim.psnr(clip_errors(frames, way)) for _, frames in clips]) for way in (BICUBIC, SMALL, LAST)}
    for budget in BUDGETS:
        runs = [sim.run_clip(frames, route, predictors, costs, budget) for _, frames in clips]
        quality = np.mean([sim.psnr(r[0]) for r in runs])
        real = np.mean([np.mean(r[0] - clip_errors(frames, LAST)) for r, (_, frames) in zip(runs, clips)])
        told = np.mean([r[3].mean() for r in runs])
        used = sum(r[2] for r in runs)
        kept = (quality - base[BICUBIC]) / (base[LAST] - base[BICUBIC])
        print(f"  {budget:6.2f} {np.mean([r[1].mean() for r in runs]) / costs.last:6.3f} {quality:7.3f} "
              f"{100 * kept:5.1f} "
              f"{100 * (1 - real / gap):7.1f} {told:8.3f} {real:7.3f} | "
              + " ".join(f"{100 * u / used.sum():5.1f}" for u in used))
    print(f"  all bicubic {base[BICUBIC]:.3f}, all small {base[SMALL]:.3f} (cost {costs.small / costs.last:.3f}), "
          f"all large {base[LAST]:.3f} (cost 1)")


def report_kinds(clips, route, predictors, costs, budget):
    print(f"\nby clip at budget {budget}: bicubic / routed / large dB, kept %, cost")
    for kind, frames in clips:
        errors, spent, _, _ = sim.run_clip(frames, route, predictors, costs, budget)
        low, high, now = sim.psnr(clip_errors(frames, BICUBIC)), sim.psnr(clip_errors(frames, LAST)), sim.psnr(errors)
        print(f"  {kind:8s} {low:7.3f} {now:7.3f} {high:7.3f} {100 * (now - low) / (high - low):6.1f} "
              f"{spent.mean() / costs.last:6.3f}")


def clip_errors(frames, way):
    return np.array([tiles.squared_error(f.pictures[way], f.high).mean(dtype=np.float64) for f in frames])


# ---------------------------------------------------------------- all of it


def cost_codes(costs):
    return np.maximum(1, np.rint(costs.all())).astype(np.int32)


def save(path, route, predictors):
    arrays = dict(route)
    for k, plain in enumerate(predictors):
        arrays.update({f"large.exit{k}.{name}": value for name, value in plain.items()})
    np.savez(path, **arrays)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weights", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--photos", action="append", help="folder of photographs, held out from training the nets")
    parser.add_argument("--more", action="append", help="folder of photographs for volume (may have been trained on)")
    parser.add_argument("--more-count", type=int, default=48, help="how many of those")
    parser.add_argument("--video", action="store_true",
                        help="footage through a camera and H.264 besides clean material")
    parser.add_argument("--cost", help="reuse,bicubic,small,exit1,exit2,large: measured ones, in any unit")
    parser.add_argument("--budget", type=float, default=0.05, help="at which clips are reported one by one")
    parser.add_argument("--buckets", type=int, default=80, help="rows of the tables; the last holds everything above")
    parser.add_argument("--clips", type=int, default=40)
    parser.add_argument("--steps", type=int, default=2500)
    return parser.parse_args()


def main():
    args = arguments()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    started = time.time()

    def stage(text):
        print(f"[{time.time() - started:5.0f} s] {text}", flush=True)

    photos = tiles.list_photos(args.photos or ["../../shared/data/train/gb82"])
    random = np.random.default_rng(SEED)
    more = tiles.list_photos(args.more or ["../../shared/data/train/cid22"], args.more_count, random)
    fitted, kept = [p for i, p in enumerate(photos) if i % 4 != 3], photos[3::4]
    model = tiles.Model(args.weights, nets)
    costs = parse_costs(args.cost, model)
    stage(f"{len(fitted)} + {len(more)} photographs to fit, {len(kept)} to report on; costs {costs}")

    parts = [tiles.collect_stills(model, fitted, random, args.video),
             tiles.collect_stills(model, more, random, args.video, 0.6)]
    buckets, errors, pooled = (np.concatenate([p[i] for p in parts]) for i in range(3))
    check = tiles.collect_stills(model, kept, random, args.video)
    stage(f"{len(buckets)} tiles, mean error by route " + " ".join(f"{e:.3f}" for e in errors.mean(0)))
    size = (384, 384)
    moves, reuse = tiles.collect_reuse(model,
                                       tiles.random_clips(fitted + more, random, args.clips, 5, size, args.video))
    stage(f"{len(moves)} tiles of clips")
    predictors = fit_predictors(pooled, errors, args.steps)
    stage("exit predictors trained")

    route = {"route.energy": fit_energy(buckets, errors, args.buckets),
             "route.change": fit_change(moves, reuse, args.buckets),
             "route.cost": cost_codes(costs)}
    margins = [fit.rms_error(p, check[2][:, k], gains(check[1])[:, k]) for k, p in enumerate(predictors)]
    exported = [fit.exported_predictor(p, d, m) for p, d, m in zip(predictors, costs.deltas(), margins)]
    clips = [(kind, sim.prepare(model, clip)) for kind, clip in
             tiles.random_clips(kept, np.random.default_rng(SEED + 1), 12, 8, size, args.video)]
    stage("clips for the trial prepared")
    save(args.out, route, exported)
    stage(f"wrote {args.out}, route.cost {route['route.cost'].tolist()}")

    excess = check[1] - check[1][:, LAST:]
    report_table("energy, photographs kept back", check[0],
                 [("bicubic", 1, excess[:, BICUBIC]), ("small", 2, excess[:, SMALL])], route["route.energy"])
    report_table("change, clips that were fitted", moves, [("reuse", 0, reuse)], route["route.change"])
    print("\nexit predictors on photographs kept back")
    report_predictors(predictors, check[2], check[1], costs)
    report_clips(clips, route, exported, costs)
    report_kinds(clips, route, exported, costs, args.budget)
    stage("done")


if __name__ == "__main__":
    main()
