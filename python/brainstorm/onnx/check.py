"""Compares a file with the model that it was imported from, until that tells something.

First with random numbers; where inputs are whole numbers, with larger ones too, as far as the reference takes them; and
with other numbers where all that came of these was 0. What could not be told is said. Must never: take nothing compared
for agreement.
"""

import re

from . import compare, feeds, frames, shapes as shapes_module
from .reference import Died, Stopped
from .refused import Refused
from ..session import Failed

FEED = "--feed FILE.npz says what to compare with"


class Check:
    def __init__(self, result, session, tolerance, say):
        self.result, self.session, self.tolerance, self.say = result, session, tolerance, say
        self.reference = compare.Reference(result.model, result.ready)
        self.agree, self.told, self.seen, self.tops = True, set(), set(), {}
        self.largest = None  # range of whole numbers that both took

    def compare(self, what, given, small=False):
        """Both run; raises what either of them raises. small: what comes of it is to be near beside what came before,
        as the numbers of a few pixels may be as small as what a sigmoid rounds to."""
        name, found = compare.differences(self.session, self.result.walk, self.reference,
                                          {**given, **self.result.values})
        self.say(f"beside {name}{what}:")
        for difference in found:
            difference.beside(self.tops.get(difference.name, 0.0) if small else 0.0)
            self.tops[difference.name] = max(self.tops.get(difference.name, 0.0), difference.top)
            good = difference.relative <= self.tolerance
            self.say(f"  {difference}" + ("" if good else f"  TOO MUCH (more than {self.tolerance:g})"))
            self.agree = self.agree and good
            self.seen.add(difference.name)
            if difference.top > 0:
                self.told.add(difference.name)

    def tried(self, what, given, small=False):
        """Whether both ran: with numbers that the model need not take."""
        try:
            self.compare(what, given, small)
            return True
        except Died as why:
            self.say(f"onnxruntime {why}{what}: not compared")
        except Failed as why:
            self.say(f"a run ends with an error{what}: {why}")
        except (Stopped, Refused):
            pass  # it is beyond a table, or nothing that a model takes
        return False

    def random(self, what, shapes, seed):
        """With random numbers. Of whole ones ONNX Runtime may refuse some, or die of them, as of a division by 0, and
        take others; where it takes none, onnx.reference takes its place."""
        given = feeds.random_inputs(shapes, seed)
        self.reference.patient = bool(feeds.whole_inputs(shapes))
        try:
            self.compare(what, given)
            self.largest = self.largest or feeds.BITS
        except Stopped as why:
            self.say(f"onnxruntime {why}{what}")
            if not self.whole(what, shapes, seed):
                self.reference.fall_back()
                self.compare(what, given)

    def whole(self, what, shapes, seed):
        """With larger whole numbers: whether any were compared."""
        def taken(low, high):
            if self.result.most and high > 97:  # they may be how long it goes on
                return False
            words = f"{what}, whole numbers {low} .. {high}"
            good = self.tried(words, feeds.random_inputs(shapes, seed, (low, high)))
            self.largest = (low, high) if good else self.largest
            return good

        first = any(taken(*numbers) for numbers in feeds.LINES)
        return bool(sum([taken(*numbers) for numbers in feeds.WIDE])) or first

    def others(self, shapes, seed):
        """With other numbers, until something is not 0."""
        for words, floats in feeds.others():
            if self.zeros():
                self.tried(f", {words}", feeds.random_inputs(shapes, seed, self.largest or feeds.BITS, floats))

    def small(self, seed):
        """Frames of a few pixels, which a model need not take."""
        frame, was = self.result.walk.frame, self.reference.patient
        sizes, self.reference.patient = frame.small(), True
        shapes = shapes_module.resized(self.result.shapes, frame, sizes)
        self.tried(sized(sizes), feeds.random_inputs(shapes, seed, self.largest or feeds.BITS), True)
        self.reference.patient = was

    def zeros(self):
        """Outputs of which nothing but 0 was seen, though something is computed of inputs."""
        values = self.result.walk.values
        return [name for name in sorted(self.seen - self.told) if not values[name].constant and values[name].size]


def checked(result, path, session, seed, tolerance, say, feed=None):
    """Whether they agree. feed: {input: array}, instead of random ones."""
    try:
        session.open(path)
    except Failed as why:
        raise Refused(of_node(result.walk, str(why))) from None
    check, runs = Check(result, session, tolerance, say), shapes_of(result, feed, seed)
    if feed is not None:
        check.compare("", feed)
    for what, shapes in runs:
        check.random(what, shapes, seed)
    if runs:
        what, shapes = runs[0]
        if check.largest == feeds.BITS and feeds.whole_inputs(shapes) and not check.whole(what, shapes, seed):
            say(f"whole numbers were compared from 0 to 1 alone: {FEED}")
        if result.walk.frame:
            check.small(seed)
        check.others(shapes, seed)
    for name in check.zeros():
        say(f"output {name!r} was 0 everywhere, which tells nothing: {FEED}")
    return check.agree


def of_node(walk, why):
    """What the library says of a file, with the model's node in the place of the file's."""
    found = re.search(r"node (\d+): (.*)", why, re.DOTALL)
    if not found or int(found[1]) >= len(walk.graph.nodes):
        return why
    return f"{walk.maker(int(found[1]))}: {found[2]}" + (frames.STEPS if walk.frame else "")


def sized(sizes):
    return ", " + " x ".join(map(str, sizes.values()))


def shapes_of(result, feed, seed):
    """(words, {input: (shape, type)}) of each run to compare: of 1, 2 and 3 rows, or of frames, most of a size with
    which the model was not imported. With a feed: none."""
    if feed is not None:
        missing = set(result.shapes) - set(feed)
        if missing:
            raise Refused("no values are given for " + ", ".join(map(repr, sorted(missing))))
        return []
    if result.walk.batch:
        return [(f", {rows} rows",
                 {name: ((rows, *shape[1:]), dtype) for name, (shape, dtype) in result.shapes.items()})
                for rows in (1, 2, 3) if rows <= result.walk.batch.maximum]
    if result.walk.frame:
        frame = result.walk.frame
        return [(sized(sizes), shapes_module.resized(result.shapes, frame, sizes))
                for sizes in (frame.sizes(0), *frame.unseen(seed))]
    return [("", result.shapes)]
