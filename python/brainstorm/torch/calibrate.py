"""Thresholds of exits from data: as cheap as can be for a wanted accuracy, or as accurate as can be for a wanted cost.

    found = calibrate(confidences, correct, costs, accuracy=0.75)
    found.thresholds    # one for each exit but the last, where all leave that are left

Exits are in the order of the network. A row leaves at the first one whose confidence is at least its threshold. NumPy
alone. Must never look at what it was not given: measure what it chose on other data.
"""

import itertools
from dataclasses import dataclass

import numpy as np

STEPS = 48   # thresholds that are tried of an exit: quantiles of its confidences
NEVER = 2.0  # of a threshold: nothing is as confident


@dataclass
class Calibration:
    thresholds: np.ndarray  # [exits - 1]; NEVER: nobody leaves there
    accuracy: float         # of the rows that it was given
    cost: float             # of a row, on the average
    leaving: np.ndarray     # [exits] share of rows


def outcome(thresholds, confidences, correct, costs):
    """What those thresholds give."""
    rows, where = np.arange(len(confidences)), np.full(len(confidences), len(costs) - 1)
    for exit in reversed(range(len(costs) - 1)):
        where[confidences[:, exit] >= thresholds[exit]] = exit
    shares = np.bincount(where, minlength=len(costs)) / len(rows)
    return Calibration(np.array(thresholds, float), float(correct[rows, where].mean()), float(costs[where].mean()),
                       shares)


def _checked(confidences, correct, costs):
    confidences, correct = np.asarray(confidences, float), np.asarray(correct, float)
    costs = np.asarray(costs, float)
    if confidences.ndim != 2 or confidences.shape != correct.shape or costs.shape != confidences.shape[1:] or \
            0 in confidences.shape:
        raise ValueError(f"confidences {list(confidences.shape)}, correct {list(correct.shape)}, costs "
                         f"{list(costs.shape)}: expected [rows, exits] twice, and [exits]")
    if not (np.isfinite(confidences).all() and np.isfinite(costs).all() and ((correct >= 0) & (correct <= 1)).all()):
        raise ValueError("a confidence or a cost is not finite, or correct is not within 0 .. 1")
    if (np.diff(costs) < 0).any():
        raise ValueError(f"costs {costs.tolist()}: an exit costs at least as much as those before it")
    return confidences, correct, costs


def _tried(confidences, exit, steps):
    return np.append(np.unique(np.quantile(confidences[:, exit], np.linspace(0, 1, steps))), NEVER)


def _searched(start, data, rank):
    """From a start on, the best by rank(outcome): all pairs of thresholds of two exits, until no two are better."""
    exits = len(data[2]) - 1
    pairs = list(itertools.combinations(range(exits), 2)) or [(0, 0)][:exits]
    steps = STEPS if exits < 4 else STEPS // 2
    tried = [_tried(data[0], exit, steps) for exit in range(exits)]
    best, better = start, True
    while better and exits:
        better = False
        for first, second in pairs:
            for a, b in itertools.product(tried[first], tried[second] if second != first else [None]):
                thresholds = best.thresholds.copy()
                thresholds[first] = a
                if b is not None:
                    thresholds[second] = b
                found = outcome(thresholds, *data)
                if rank(found) < rank(best):
                    best, better = found, True
    return best


def calibrate(confidences, correct, costs, accuracy=None, cost=None):
    """confidences, correct: [rows, exits]; correct 0 or 1 (or a quality between them). costs: [exits], of leaving
    there, everything before included. accuracy: at least that, at the least cost; cost: at most that, at the greatest
    accuracy. One of them is given. A wish that no threshold fulfils is a ValueError that says what can be had."""
    if (accuracy is None) == (cost is None):
        raise ValueError("either accuracy or cost is given")
    data = _checked(confidences, correct, costs)

    def rank(found):
        """Lower is better; first what fulfils the wish, or how far it is from that."""
        beyond = max(accuracy - found.accuracy if cost is None else found.cost - cost, 0.0)
        return (beyond, found.cost, -found.accuracy) if cost is None else (beyond, -found.accuracy, found.cost)

    levels = np.unique(np.quantile(data[0], np.linspace(0, 1, STEPS)))  # one for all exits
    starts = [outcome(np.full(len(data[2]) - 1, t), *data) for t in (-np.inf, *levels, NEVER)]
    best = _searched(min(starts, key=rank), data, rank)
    if rank(best)[0] > 0:
        raise ValueError(f"an accuracy of {accuracy} cannot be had: {best.accuracy:.4f} is the most that was found"
                         if cost is None else
                         f"a cost of {cost} cannot be had: {best.cost:.6g} is the least that was found")
    return best
