"""Runs an imported network beside ncnn, in f32: whether results are the same.

Owns: which numbers are fed, and which frames. They must be able to tell: numbers of both signs, two kinds, of which
results must differ, and frames whose sizes divide by nothing much. Relies on what runs models (session.py), and
the `ncnn` package, neither of which need be there. Must never take a comparison for one that cannot tell.
"""

import importlib.util

import numpy as np

from .. import session
from .extents import Extent
from .param import Refused
from .reference import ncnn_net, ncnn_run, results  # noqa: F401: tests time those

TOLERANCE = 1e-3  # of the largest magnitude of an output; ncnn's plain loops are within 1e-4 of ours
SEED, SIDE = 1, 96  # of the random input; rows and columns of a frame that is free, about
HUGE = 1e30       # where ncnn's functions stop short of infinity
# Frames that are compared, where sizes are free: for any size, and for multiples, which halve it first.
FRAMES = {True: ((72, SIDE), (101, 67)), False: ((SIDE, SIDE + 32), (131, 107))}
# What they are, and how they are drawn: those that are fed in any case, and those for where these cannot tell.
FIRST = {"0 .. 1": lambda random, shape: random.random(shape, np.float32),
         "around 0": lambda random, shape: random.standard_normal(shape, np.float32)}
OTHERS = {"around 0, to 300": lambda random, shape: 100 * random.standard_normal(shape, np.float32),
          "around 0, to 0.03": lambda random, shape: random.standard_normal(shape, np.float32) / 100}


def concrete(blob, of):
    """A shape in numbers, with a number for each symbol."""
    return [(d.times * of[d.symbol] + d.add) // d.over if isinstance(d, Extent) else d for d in blob.shape]


def random_inputs(made, seed=SEED, frame=(SIDE, SIDE + 32), draw=FIRST["0 .. 1"]):
    """{input: array} and {output: shape} for a frame of about that size, no more than is allowed."""
    most = {symbol: made.most[symbol] for symbol in made.most}
    of = {symbol: max(1, min(most[symbol], side // made.multiple))
          for symbol, side in zip(("height", "width"), frame) if symbol in most}
    random = np.random.default_rng(seed)
    inputs = {name: draw(random, concrete(blob, of)) for name, blob in made.inputs.items()}
    return inputs, {name: concrete(blob, of) for name, blob in made.outputs.items()}


def apart(ours, theirs):
    """The largest difference; infinite where only one of both is no number."""
    with np.errstate(all="ignore"):
        there = np.where((ours == theirs) | (np.isnan(ours) & np.isnan(theirs)), 0.0, np.abs(
            ours.astype(np.float64) - theirs))
    return float(np.where(np.isnan(there), np.inf, there).max(initial=0.0))


def comparable(y):
    """Whether rounding does not decide what is a number at all."""
    return bool((np.abs(y) < HUGE).all())


def useless(first, second):
    """{output: why its first results cannot tell}; the second ones are of other inputs."""
    made = {}
    for name, y in first.items():
        if not comparable(y):
            made[name] = "is not finite, or nearly so,"
        elif not y.any():
            made[name] = "is zero everywhere"
        elif np.array_equal(y, second[name]):
            made[name] = "is the same for all inputs"
    return made


class Comparison:
    """Of a network: runs it with all sorts of numbers. largest: {output: (difference to the largest magnitude,
    difference, magnitude)}; useless: {output: why nothing tells}; notes: what was tried in vain."""

    def __init__(self, session, param, bin, path, made):
        self.session, self.param, self.bin, self.made = session, param, bin, made
        self.largest, self.notes, self.useless = {}, [], dict.fromkeys(made.outputs, "")
        session.open(path)
        for numbers in (FIRST, OTHERS):
            if self.useless:
                self._try(numbers)

    def _try(self, numbers):
        """Numbers of two kinds for one frame, and of the second kind for another, if frames are free."""
        frame, another = FRAMES[self.made.multiple == 1]
        fed = [random_inputs(self.made, SEED, frame, draw) for draw in numbers.values()]
        if self.made.most:
            fed.append(random_inputs(self.made, SEED, another, list(numbers.values())[-1]))
        theirs = results(self.param, self.bin, [inputs for inputs, _ in fed], list(self.made.outputs))
        for words, y, other in zip(numbers, theirs, theirs[1::-1]):
            why = useless(y, other)
            self.useless = {name: why[name] for name in self.useless if name in why}
            self.notes += [f"{name} {what} for numbers {words}" for name, what in why.items()]
        for (inputs, shapes), wanted in zip(fed, theirs):
            outputs = [(name, tuple(shapes[name]), "f32") for name in wanted]
            for (name, y), ours in zip(wanted.items(), self.session.run(list(inputs.items()), outputs)):
                self._note(name, ours, y)

    def _note(self, name, ours, theirs):
        if ours.shape != theirs.shape:
            raise Refused(f"{name!r} is {list(ours.shape)}, and of ncnn {list(theirs.shape)}")
        if not comparable(theirs):
            return
        far, top = apart(ours, theirs), float(np.abs(theirs).max(initial=0.0))
        self.largest[name] = max(self.largest.get(name, (0.0, 0.0, 0.0)), (far / top if top else far, far, top))

    @property
    def relative(self):
        return max((relative for relative, _, _ in self.largest.values()), default=0.0)

    def __str__(self):
        lines = [f"{note}: other numbers are tried" for note in self.notes]
        lines += [f"{name} {why}, whatever is fed: this comparison says nothing of it"
                  for name, why in self.useless.items()]
        return "\n".join(lines + [f"{name}: at most {far:.3g} from ncnn's, whose largest is {top:.3g}"
                                  for name, (_, far, top) in self.largest.items()])


def compare(param, bin, path, made, tolerance=TOLERANCE):
    """What to print: the largest differences, or why there are none. Fails where they are more than `tolerance` of the
    largest magnitude, and where ncnn does not run the network."""
    if importlib.util.find_spec("ncnn") is None:
        return "not compared with ncnn: pip install ncnn"
    with session.used(Refused) as runs:
        if runs is None:
            return "not compared with ncnn: nothing that runs models is here, pip install ./python"
        try:
            found = Comparison(runs, param, bin, path, made)
        except ValueError as why:
            raise Refused(f"it cannot be compared, and is not kept: {why} (--no-compare)") from None
    if not found.relative <= tolerance:
        raise Refused(f"it would not give what ncnn gives, and is not kept (--tolerance {tolerance:g}):\n{found}")
    return str(found)
