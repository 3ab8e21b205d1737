# tags: needs:numpy,gguf
"""test_calibrate.py: thresholds of exits are those that the wish wants, near the best that there are, and honest about
it.

Relies on model_rig.py. Data are from a seed: rows are easy or hard, and later exits are right more often.
"""

import itertools
import sys

from model_rig import end, report  # first: it finds python/

import numpy as np
from brainstorm.torch import calibrate

random = np.random.default_rng(12)


def data(rows, exits):
    """Confidences, correct and costs of a network whose exits know, about, how sure they are."""
    hard = random.random((rows, 1))
    skill = np.linspace(0.6, 1.6, exits)
    chance = np.clip(skill - hard + 0.05 * random.standard_normal((rows, exits)), 0.05, 0.98)
    return chance, (random.random((rows, exits)) < chance).astype(float), np.linspace(1.0, 4.0, exits)


def given(thresholds, confidences, correct, costs):
    """(accuracy, cost) by one row after the other."""
    total = np.zeros(2)
    for row, right in zip(confidences, correct):
        exit = next((e for e, t in enumerate(thresholds) if row[e] >= t), len(costs) - 1)
        total += right[exit], costs[exit]
    return total / len(confidences)


def brute(confidences, correct, costs, steps=24):
    """All there is on a grid of thresholds."""
    levels = [np.append(np.quantile(confidences[:, e], np.linspace(0, 1, steps)), 2.0) for e in range(len(costs) - 1)]
    return [given(t, confidences, correct, costs) for t in itertools.product(*levels)]


def wishes(exits, rows):
    those = data(rows, exits)
    every = brute(*those, steps=24 if exits == 2 else 9)
    first, last = those[1][:, 0].mean(), those[1][:, -1].mean()
    for share in (0.3, 0.6, 0.9):
        wanted = first + share * (last - first)
        found = calibrate(*those, accuracy=wanted)
        accuracy, cost = given(found.thresholds, *those)
        best = min(c for a, c in every if a >= wanted)
        name = f"{exits} exits, accuracy {wanted:.3f}"
        report(f"{name}: it is reached, and said", accuracy >= wanted and np.isclose(accuracy, found.accuracy) and
               np.isclose(cost, found.cost), f"{accuracy} {found}")
        report(f"{name}: about as cheap as any", cost <= best + 0.05 * (those[2][-1] - those[2][0]), f"{cost} {best}")
        report(f"{name}: cheaper than the whole network", cost < those[2][-1])
        most = 1.0 + share * 3.0
        found = calibrate(*those, cost=most)
        accuracy, cost = given(found.thresholds, *those)
        best = max(a for a, c in every if c <= most)
        report(f"{exits} exits, cost {most:.2f}: kept, and about as accurate as any", cost <= most and
               accuracy >= best - 0.01, f"{accuracy} at {cost}, {best}")
        report(f"{exits} exits, cost {most:.2f}: rows leave where it says", np.isclose(found.leaving.sum(), 1) and
               np.isclose(found.leaving @ those[2], cost))


def refused(name, *arrays, **wish):
    try:
        report(f"refused: {name}", False, str(calibrate(*arrays, **wish)))
    except ValueError as error:
        report(f"refused: {name}", len(str(error)) > 10)


def refusals():
    confidences, correct, costs = data(50, 3)
    refused("no wish", confidences, correct, costs)
    refused("two wishes", confidences, correct, costs, accuracy=0.5, cost=1.0)
    refused("an accuracy that cannot be had", confidences, correct, costs, accuracy=1.01)
    refused("a cost that cannot be had", confidences, correct, costs, cost=0.5)
    refused("shapes that differ", confidences, correct[:, :2], costs, cost=2.0)
    refused("no rows", confidences[:0], correct[:0], costs, cost=2.0)
    refused("NaN", confidences * np.nan, correct, costs, cost=2.0)
    refused("costs that fall", confidences, correct, costs[::-1], cost=2.0)
    refused("corrects beyond 1", confidences, correct * 2, costs, cost=2.0)


wishes(2, 600)
wishes(3, 300)
refusals()
sys.exit(end())
