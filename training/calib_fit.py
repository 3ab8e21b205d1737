"""What calibrate.py fits: loss tables over buckets and the exit predictors."""

import numpy as np
import torch
import torch.nn as nn

LOSS_UNIT = 256  # router losses are squared codes times this
LOSS_LIMIT = 1 << 24  # the router clamps there
GAIN_FLOOR = 1.0  # in router units: an exit's gain below this (0.004 squared codes) is no gain

# ---------------------------------------------------------------- tables


def monotone(values, weights):
    """Isotonic regression: the non-decreasing sequence nearest in weighted squares (pool adjacent violators)."""
    pools = []  # [mean, weight, count]
    for value, weight in zip(values, weights):
        pools.append([value, weight, 1])
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            value, weight, count = pools.pop()
            total = pools[-1][1] + weight
            pools[-1] = [(pools[-1][0] * pools[-1][1] + value * weight) / total, total, pools[-1][2] + count]
    return np.concatenate([np.full(count, value) for value, _, count in pools])


def line_end(bucket, mean, weight, steepest=0.35):
    """Slope of log2(mean) per bucket; 0.25 is a loss proportional to the feature. Kept between flat and a bit more."""
    if len(bucket) < 2:
        return 0.25
    slope = np.polyfit(bucket, np.log2(mean), 1, w=np.sqrt(weight))[0]
    return float(np.clip(slope, 0.0, steepest))


def fit_table(buckets, excess, size, least=4.0, width=1.0, near=12):
    """Expected excess per bucket: the conditional mean, smoothed, monotone, continued as a power law where there is
    nothing to measure. Means, not medians: the router's budget is about sums.

    least: tiles a bucket needs (after smoothing) to count; width: of the smoothing, in buckets; near: buckets that
    decide how a table goes on beyond its data.
    """
    buckets = np.minimum(buckets, size - 1)
    total = np.bincount(buckets, excess, size)
    count = np.bincount(buckets, minlength=size).astype(np.float64)
    # The last bucket holds everything above it and is no neighbour of what precedes it; nor is 0.
    inner = np.arange(1, size - 1)
    kernel = np.exp(-0.5 * ((inner[:, None] - inner) / width) ** 2) * (abs(inner[:, None] - inner) <= 3 * width)
    smooth_total, smooth_count = total.copy(), count.copy()
    smooth_total[inner], smooth_count[inner] = kernel @ total[inner], kernel @ count[inner]
    known = np.flatnonzero(smooth_count >= least)
    known = known[known > 0]
    mean = np.maximum(smooth_total[known] / smooth_count[known], 1e-3)
    mean = np.maximum(monotone(mean, smooth_count[known]), 1e-3)

    table = np.exp2(np.interp(np.arange(size), known, np.log2(mean)))
    low, high = known[0], known[-1]
    down = line_end(known[:near], mean[:near], smooth_count[known][:near])
    up = line_end(known[-near:], mean[-near:], smooth_count[known][-near:])
    table[:low] = mean[0] * np.exp2(-max(down, 0.1) * (low - np.arange(low)))
    table[high + 1 :] = mean[-1] * np.exp2(max(up, 0.1) * np.arange(1, size - high))
    table[0] = 0 if known[0] > 1 else min(table[0], max(0, total[0] / max(count[0], 1)))
    # Smoothing and pooling must not shift the sum over the data.
    predicted = float(table[buckets].sum())
    return table * (max(float(excess.sum()), 0) / predicted) if predicted > 0 else table


def table_codes(columns):
    """Columns of squared codes -> i32 table of the router."""
    table = np.rint(np.stack(columns, 1) * LOSS_UNIT)
    return np.clip(table, 0, LOSS_LIMIT).astype(np.int32)


# ---------------------------------------------------------------- exit predictors


class Predictor(nn.Module):
    def __init__(self, width=32, hidden=16):
        super().__init__()
        self.hidden = nn.Linear(width, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(x)))[:, 0]


def train_predictor(pooled, gain, steps=2500, rate=5e-3, seed=1):
    """Predictor of log2(gain), gain in router units. Features are standardised for training and the scaling is then
    folded into the hidden layer."""
    torch.manual_seed(seed)
    x = torch.from_numpy(pooled)
    middle, spread = x.mean(0), x.std(0) + 1e-6
    x = (x - middle) / spread
    wanted = torch.from_numpy(np.log2(np.maximum(gain, GAIN_FLOOR)).astype(np.float32))
    net = Predictor(pooled.shape[1])
    net.out.bias.data.fill_(float(wanted.mean()))
    optimizer = torch.optim.Adam(net.parameters(), rate, weight_decay=1e-4)
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * 0.5 * (1 + np.cos(np.pi * step / steps))
        pick = torch.randint(0, len(x), (256,), generator=generator)
        # Huber: tiles whose gain is under the floor say only "little".
        loss = nn.functional.smooth_l1_loss(net(x[pick]), wanted[pick])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net.hidden.weight.data /= spread
    net.hidden.bias.data -= net.hidden.weight.data @ middle
    match_mean(net, pooled, gain)
    return net


def predict(net, pooled):
    with torch.no_grad():
        return net(torch.from_numpy(pooled)).numpy().astype(np.float64)


def match_mean(net, pooled, gain):
    """One scalar, so that the mean of 2^prediction is the mean gain: a mean of logarithms lies below it, and prices are
    about means."""
    shift = np.log2(max(float(gain.mean()), GAIN_FLOOR) / np.exp2(predict(net, pooled)).mean())
    net.out.bias.data += float(shift)


def rms_error(net, pooled, gain):
    """Of the predicted log2 gain, on tiles the predictor has not seen."""
    wanted = np.log2(np.maximum(gain, GAIN_FLOOR))
    return float(np.sqrt(np.mean((predict(net, pooled) - wanted) ** 2)))


def exported_predictor(net, delta_cost, margin):
    """Tensors for the C router, which leaves when score >= threshold + knob with threshold 0 and knob = log2 of cost
    per unit of loss: score = log2(cost of going on) - log2(gain of going on) - margin.

    margin: the predictor's rms error. Errors are in the logarithm, so a tile that leaves wrongly loses several times
    what one that goes on wrongly costs: it leaves only when going on would not pay even if the gain were one error
    larger.
    """
    plain = {k: v.numpy().astype(np.float32) for k, v in net.state_dict().items()}
    plain["out.weight"] = -plain["out.weight"]
    plain["out.bias"] = np.float32(np.log2(delta_cost) - margin) - plain["out.bias"]
    return plain
