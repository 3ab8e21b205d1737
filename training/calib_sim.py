"""The per-frame decision of the routed graph in numpy, to try tables out: src/run/route.c's budget, tile by tile."""

from dataclasses import dataclass

import numpy as np

import calib_tiles as tiles
import data
from calib_fit import LOSS_LIMIT

# What the router weighs: the large net once for each of its ends. The last three take the large path, where the exit
# predictors then decide by themselves, at the router's price.
REUSE, V_BICUBIC, V_SMALL, V_EXIT1, V_EXIT2, V_LARGE = range(6)
MANTISSA = np.array([256, 279, 304, 332, 362, 395, 431, 470], np.int64)
STEPS = 200


@dataclass
class Costs:
    """Cost units per tile of each way to make it."""

    reuse: float
    bicubic: float
    small: float
    exit1: float
    exit2: float
    last: float

    def all(self):
        return np.array([self.reuse, self.bicubic, self.small, self.exit1, self.exit2, self.last])

    def deltas(self):
        """What going on to the end costs more than leaving, at either exit."""
        return self.last - self.exit1, self.last - self.exit2


def rows(table, buckets):
    return table[np.minimum(buckets, len(table) - 1)].astype(np.int64)


def price_weight(step):
    return int(MANTISSA[step & 7]) << (step >> 3)


def cheapest(loss, cost, step):
    """Per tile the variant of least cost + price x loss; at the last step loss alone counts and cost breaks ties."""
    cost = cost.astype(np.int64)
    total = (loss << 25) + cost if step == STEPS else (cost << 20) + loss * price_weight(step)
    return np.argmin(total, 1)


def decide(loss, cost, budget, floor=0):
    """Variants of a frame's tiles and the price's step. loss: int64 [tiles,6]. The budget is a share of what bicubic
    would lose; what it loses up to the floor is allowed in any case."""
    loss = np.clip(loss, 0, LOSS_LIMIT)
    best = loss.min(1)
    top = np.maximum(loss[:, V_BICUBIC], best)
    given = int(float(np.float32(budget)) * float((top - best).sum()))
    allowed = max(given, int(np.minimum(top - best, floor).sum())) + int(best.sum())
    low, high = 0, STEPS
    while low < high:
        middle = (low + high) // 2
        chosen = cheapest(loss, cost, middle)
        if int(np.take_along_axis(loss, chosen[:, None], 1).sum()) <= allowed:
            high = middle
        else:
            low = middle + 1
    return cheapest(loss, cost, low), low


@dataclass
class Frame:
    """All that the decision and its judgement need of one frame, computed once for all budgets."""

    low: np.ndarray
    high: np.ndarray
    pictures: np.ndarray  # u8 [5,2h,2w]
    energy: np.ndarray  # bucket per tile
    pooled: np.ndarray  # [tiles,2,32]


def prepare(model, clip):
    frames = []
    for high in clip:
        low = data.to_code(data.downscale(high.astype(np.float32)))
        pictures, seen = model.run(low)
        places = tiles.grid(low.shape)
        frames.append(Frame(low, high.astype(np.float32), pictures,
                            np.array([tiles.bucket(tiles.energy(tiles.tile_at(low, y, x))) for y, x in places]),
                            np.array([tiles.tile_mean(seen, y, x, tiles.TILE) for y, x in places], np.float32)))
    return frames


def scores(pooled, predictors):
    """Exit scores [tiles,2] by the exported weights."""
    result = []
    for number, p in enumerate(predictors):
        hidden = np.maximum(pooled[:, number] @ p["hidden.weight"].T + p["hidden.bias"], 0)
        result.append((hidden @ p["out.weight"].T + p["out.bias"])[:, 0])
    return np.stack(result, 1)


def run_clip(frames, route, predictors, costs, budget):
    """Mean squared error and cost per tile of every frame, and how often each way was taken (reuse, bicubic, small,
    exit1, exit2, last)."""
    places = tiles.grid(frames[0].low.shape)
    output = np.zeros(frames[0].high.shape, np.uint8)
    reference = np.zeros(frames[0].low.shape, np.uint8)
    last_loss = np.zeros(len(places), np.int64)
    price = costs.all()
    errors, spent, used, estimated = [], [], np.zeros(6, int), []
    for f in frames:
        changes = np.array([tiles.bucket(tiles.change(tiles.tile_at(f.low, y, x), tiles.tile_at(reference, y, x)))
                            for y, x in places])
        loss = rows(route["route.energy"], f.energy) + rows(route["route.change"], changes)
        loss[:, REUSE] += last_loss
        chosen, step = decide(loss, route["route.cost"], budget)
        leave = scores(f.pooled, predictors) >= step / 8 - 12
        cost = 0.0
        for n, (y, x) in enumerate(places):
            variant = int(chosen[n])
            way = variant if variant < V_EXIT1 else V_EXIT1 if leave[n, 0] else V_EXIT2 if leave[n, 1] else V_LARGE
            used[way] += 1
            cost += price[way]
            if variant != REUSE:
                part = np.s_[2 * y : 2 * (y + tiles.TILE), 2 * x : 2 * (x + tiles.TILE)]
                output[part] = f.pictures[way - 1][part]
                reference[y : y + tiles.TILE, x : x + tiles.TILE] = tiles.tile_at(f.low, y, x)
                last_loss[n] = loss[n, variant]
        estimated.append(np.take_along_axis(loss, chosen[:, None], 1).mean() / 256)
        errors.append(tiles.squared_error(output, f.high).mean(dtype=np.float64))
        spent.append(cost / len(places))
    return np.array(errors), np.array(spent), used, np.array(estimated)


def psnr(errors):
    return float(np.mean(10 * np.log10(255.0**2 / np.maximum(errors, 1e-3))))
