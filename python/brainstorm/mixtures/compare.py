"""Whether an imported file gives what its layers are published to give (published.py): both run on the same rows.

Owns: which numbers are fed. They must be able to tell: rows that every router sends to every expert, in batches of
several sizes; small ones, of which epsilon is a part; and of such a magnitude that what the experts add is not lost in
what they add it to. Rows that are undecided between two experts are left out: rounding decides those.
Relies on what runs models (session.py). Must never take a comparison for one that cannot tell.
"""


import numpy as np

from .layer import Refused

TOLERANCE = 1e-3  # of the largest magnitude of what the layers add; f32 sums are two digits better
MARGIN = 1e-4     # of scores, below which a row is undecided
TELLS = 1e-3      # of the rows' magnitude: what is added must be this much, or rounding of the sum is 1e-4 of it
MOST_AIMED, RANDOM_ROWS = 512, 48
ROW_SCALES = (1.0, 0.02, 1.0, 3.0)
OTHER_SIZES = (1e2, 1e-2, 1e4)  # where nothing says which would be better
BATCHES = (1, 3, 64, 2, 17)     # rows, no more than a run takes


class Fed:
    """Rows x of a size, what is published to come of them, and why they cannot tell, or nothing. base: what is added
    to, else 0; top: the largest number that is added."""

    def __init__(self, mixtures, around, size, adds_to, bare):
        x = (around * size).astype(np.float32)
        with np.errstate(all="ignore"):
            wanted, decided, self.reached = expected(mixtures, x.astype(np.float64), bare)
        good = decided & np.isfinite(wanted).all(-1)
        self.size, self.x, self.wanted = size, x[good], wanted[good]
        self.base = self.x if adds_to else 0
        self.top = float(np.abs(self.wanted - self.base).max(initial=0.0))
        self.share = self.top / float(np.abs(self.x).max(initial=0.0) or 1)
        self.why = ("no result is finite, or the routers cannot decide" if not len(self.x) else "all results are zero"
                    if self.top == 0 and not adds_to else "the experts add nothing" if self.top == 0 else
                    f"the experts add too little, {self.share:.2g} of a row" if adds_to and self.share < TELLS else "")


class Found:
    """What a comparison found. relative: the largest difference to the largest number that is added."""

    def __init__(self, fed, tried, largest, experts):
        self.fed, self.tried, self.largest, self.experts = fed, tried, largest, experts
        scale = max(fed.top, TELLS * float(np.abs(fed.base).max(initial=0.0)))
        self.relative = largest / scale if scale else largest

    def __str__(self):
        lines = [f"numbers around {fed.size:.2g} cannot tell: {fed.why}" for fed in self.tried if fed.why]
        if self.fed.why:
            lines.append("none were found that can: this comparison says nothing of the experts")
        lines.append(f"beside what is published: largest difference {self.largest:.3g}, {self.relative:.3g} of the "
                     f"largest number that is added, {self.fed.top:.3g}; {len(self.fed.x)} rows, {self.fed.reached} of "
                     f"{self.experts} experts")
        return "\n".join(lines)


def expected(mixtures, x, bare):
    """(results, which rows are decided, experts that were reached)"""
    decided, reached = np.ones(len(x), bool), 0
    for mixture in mixtures:
        answer = mixture.published(x, bare)
        decided &= answer.margin > MARGIN
        reached += int(answer.reached.sum())
        x = answer.added if bare or mixture.norm is None else x + answer.added
    return x, decided, reached


def rows_of(mixtures, seed=1):
    """Rows around 1: random ones, and some that lean to each expert."""
    random, d = np.random.default_rng(seed), mixtures[0].width
    aims = np.concatenate([np.asarray(m.router, np.float32) * (1 if m.norm is None else np.asarray(m.norm, np.float32))
                           for m in mixtures])
    aims = aims[np.linspace(0, len(aims) - 1, min(len(aims), MOST_AIMED)).astype(int)]
    lengths = np.linalg.norm(aims, axis=-1, keepdims=True)
    aims = aims / np.where(lengths > 0, lengths, 1) * np.sqrt(d)
    x = random.standard_normal((len(aims) + RANDOM_ROWS, d))
    x[:len(aims)] += aims
    return x * np.resize(ROW_SCALES, len(x))[:, None]


def telling(mixtures, bare, seed):
    """(Fed that can tell, or comes nearest to it; all that were tried). A norm makes what is added the same for small
    rows, down to its epsilon: so smaller rows tell more where little is added."""
    adds_to = not bare and any(m.norm is not None for m in mixtures)
    around, others, sizes, tried = rows_of(mixtures, seed), list(OTHER_SIZES), [1.0], []
    least = max([m.epsilon for m in mixtures]) ** 0.5
    while True:
        fed = Fed(mixtures, around, sizes[-1], adds_to, bare)
        tried.append(fed)
        better = max(fed.size * fed.share, least) if adds_to and fed.top > 0 else None
        if not fed.why or (better is None or better in sizes) and not others:
            return max(tried, key=lambda fed: (not fed.why, fed.share)), tried
        sizes.append(others.pop(0) if better is None or better in sizes else better)


def compare(session, path, mixtures, rows, bare=False, seed=1):
    """Found. path: the file of these mixtures; rows: of a run, at most."""
    fed, tried = telling(mixtures, bare, seed)
    session.open(path)
    at, turn, largest = 0, 0, 0.0
    while at < len(fed.x):
        part = fed.x[at:at + min(BATCHES[turn % len(BATCHES)], rows)]
        y, = session.run([("x", part)], [("y", part.shape, "f32")])
        apart = np.abs(y.astype(np.float64) - fed.wanted[at:at + len(part)])
        largest = max(largest, float(np.where(np.isnan(apart), np.inf, apart).max()))
        at, turn = at + len(part), turn + 1
    return Found(fed, tried, largest, sum(m.experts for m in mixtures))
