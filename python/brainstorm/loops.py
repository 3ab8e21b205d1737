"""Loops of the graph that graph.py builds: the twins of bs_loop_begin and what follows it; trees.

    loop = g.loop(x, "steps", over=x)
    h = g.loop_carry(loop, h0)
    y = body(g.loop_slice(loop, x), h)
    last, all = g.loop_next(loop, h, y), g.loop_collect(loop, y)
    g.loop_end(loop)

Must never: know of shapes.
"""

from .ops import MAX_ALL_PATHS, MAX_TRIPS, within


class Loop:
    """A router whose one path is the body."""

    paths, score, protocol, most = 1, None, None, 1

    def __init__(self, graph, number, name, count, over, in_turn, grows):
        self.graph, self.number, self.name, self.count, self.over = graph, number, name, count, over
        self.in_turn, self.grows = in_turn, grows
        self.carried, self.known = {}, set()


class Loops:
    def loop(self, like, name, bound=0, count=None, over=None, in_turn=0, grows=0, no_lift=0):
        """Rows of the domain of `like` make as many trips as `count` says or `over` is long, at most `bound`. in_turn:
        a row makes one trip alone, the one that `count` is the number of. grows: a row makes one trip, and rows for the
        next one, as many as go_on says. no_lift: what is the same in every trip is computed in each."""
        if (in_turn or grows) and (count is None or over is not None or in_turn == grows):
            raise ValueError(f"loop {name!r}: rows go in turn, or grow, by their count and over no value")
        within(f"bound of {name!r}", bound, 0 if over is not None else 1, MAX_TRIPS)
        self.n_paths = within("the number of all paths", self.n_paths + 1, 1, MAX_ALL_PATHS)
        self._take_name(name, (name,))
        self.node("loop", [like, count, over], name, bound=bound, in_turn=in_turn, grows=grows, no_lift=no_lift)
        self.n_routers += 1
        self.open_loops.append(Loop(self, self.n_routers, name, count, over, in_turn, grows))
        return self.open_loops[-1]

    def _open(self, loop):
        if not self.open_loops or self.open_loops[-1] is not self._router(loop):
            raise ValueError(f"loop {loop.name!r} has ended, or is not the one that was begun last")
        return loop

    def loop_carry(self, loop, initial):
        value = self.node("loop_carry", [initial], router=self._open(loop).number)
        loop.carried[value] = initial
        loop.known.add(value)
        return value

    def loop_next(self, loop, carried, value):
        """What a carried value is after a trip; carried None: the value of a row's last trip."""
        if carried is not None and carried not in self._open(loop).carried:
            raise ValueError("loop_next: the loop does not carry it, or it was given before")
        initial = None if carried is None else loop.carried.pop(carried)
        return self.node("loop_next", [value, initial, carried], router=self._open(loop).number)

    def loop_collect(self, loop, value):
        return self.node("loop_collect", [value, None], router=self._open(loop).number)

    def loop_trip(self, loop, mode=0):
        return self.node("loop_trip", router=self._open(loop).number, mode=mode)

    def loop_slice(self, loop, x):
        """x[trip]; where x is not what the loop goes over, it may have too few for a trip, which the run then says."""
        if x is self._open(loop).over:
            return self.node("loop_slice", [x], router=loop.number)
        rows = self.scatter(self._open(loop), 0, x)
        return self.select(rows, self.loop_trip(loop, 2), 0)

    def loop_rows(self, loop, carried, index):
        """The rows of a carried value that `index` names, as before the trip; -1: zeros."""
        if carried not in self._open(loop).known:
            raise ValueError("loop_rows: the loop does not carry it")
        return self.node("loop_rows", [carried, index], router=loop.number)

    def loop_parent(self, loop, mode=0):
        """The row that made this one, -1: none did; mode 1: which one it is of those that the same row made."""
        if not self._open(loop).grows:
            raise ValueError(f"loop {loop.name!r} does not grow")
        return self.node("loop_parent", router=loop.number, mode=mode)

    def loop_child(self, loop):
        return self.loop_parent(loop, 1)

    def loop_trips(self, loop):
        return self.loop_next(loop, None, self.loop_trip(loop, 1))

    def loop_end(self, loop, go_on=None):
        if self._open(loop).carried:
            raise ValueError(f"loop {loop.name!r}: {len(loop.carried)} carried values have no loop_next")
        if loop.grows and go_on is None:
            raise ValueError(f"loop {loop.name!r}: how many rows a row makes is missing")
        if loop.in_turn and go_on is not None:
            raise ValueError(f"loop {loop.name!r}: a predicate, where rows go in turn")
        self.node("loop_again", [go_on, loop.count], loop.name, router=loop.number)
        self.open_loops.pop()

    def children(self, lengths, indices, slots):
        """Lists one behind the other, as long as `lengths` says, as rows of `slots`, -1 behind the last child."""
        return self.node("children", [lengths, indices], slots=slots)

    def levels(self, children):
        """1 for a row without children, else 1 more than the highest level of its children: [V, 1]."""
        return self.node("levels", [children])
