"""Networks that decide while they run: a search that keeps the best beams, trees that grow; time_skipnet.py has blocks
that gates skip.

Seeded weights and inputs, and what each is by definition (NumPy, float64). What was decided is found once, when it is
first asked for. Must never: know of a runtime: time_decide_ours.py and time_decide_torch.py do.
"""

import functools

import numpy as np

from product_cases import sigmoid
from time_forms import Looped


def lstm_cell(w, x, h, c):
    """w: {name: float64}, named as by PyTorch."""
    i, f, g, o = np.split(x @ w["weight_ih"].T + w["bias_ih"] + h @ w["weight_hh"].T + w["bias_hh"], 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


class Deciding(Looped):
    """truth: the result, by definition. margin: how far the closest decision was from another one."""
    CLEAR = 3e-5  # of rounding in f32

    def definition(self):
        truth = self.truth
        if self.margin < self.CLEAR:
            raise SystemExit(f"{self.name}: a decision hangs on {self.margin:.1e}, which is too close for f32")
        return truth

    def normal_lstm(self, name, inputs, units, spread):
        for part, of in (("ih", inputs), ("hh", units)):
            self.weights[f"{name}.weight_{part}"] = self.normal(4 * units, of, spread=spread * of ** -0.5)
            self.weights[f"{name}.bias_{part}"] = self.normal(4 * units, spread=0.1)

    def exact_lstm(self, name):
        return {part: self.exact(f"{name}.{part}") for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}


class Beam(Deciding):
    """The decoder of Seq2seq, which keeps the `BEAMS` sentences that are likeliest so far: scores are sums of
    logarithms of what softmax gives. A beam that has ended goes on with END alone, at no cost; a row is done when all
    its beams have ended, or have as many words as they may. The result is the best beam."""
    result_type = np.int32
    BEAMS, END, NEVER = 4, 0, -1e9
    SPREAD, LIKELY = 8.0, 4.5  # spread of what softmax takes, and what the end has more than others

    def __init__(self, name, rows, units, words, most):
        super().__init__(name)
        self.rows, self.units, self.words, self.most = rows, units, words, most
        self.weights["embedding"] = self.normal(words, units)
        self.normal_lstm("lstm", units, units, 1.5)
        self.weights["words.weight"] = self.normal(words, units, spread=self.SPREAD * units ** -0.5)
        self.weights["words.bias"] = self.normal(words, spread=0.1)
        self.weights["words.bias"][self.END] += self.LIKELY
        self.inputs = {"first": self.noise.integers(1, words, (rows, 1), np.int32), "h": self.normal(rows, units),
                       "c": self.normal(rows, units)}
        self.result_shape = (rows, most)

    @property
    def begins(self):
        """Scores: of beams that are the same only one counts."""
        return np.array([0] + (self.BEAMS - 1) * [self.NEVER], np.float32)

    @property
    def ends(self):
        """What words are worth after the last one."""
        return np.where(np.arange(self.words) == self.END, 0, self.NEVER).astype(np.float32)[None]

    def trip(self, w, state, at):
        """state: of the rows that go on. Gives it after the trip, and by how much less than what was kept something
        was that was not."""
        h, c, token, score, ended, words = state
        h, c = lstm_cell(w["lstm"], w["embedding"][token], h, c)
        logits = h @ w["words.weight"].T + w["words.bias"]
        logits -= logits.max(-1, keepdims=True)
        more = np.where(ended[..., None], self.ends, logits - np.log(np.exp(logits).sum(-1, keepdims=True)))
        total = (score[..., None] + more).reshape(len(h), -1)
        best = np.argpartition(-total, self.BEAMS)[:, : self.BEAMS + 1]
        found = np.take_along_axis(total, best, 1)
        order = np.argsort(-found, 1)
        best, found = (np.take_along_axis(v, order, 1) for v in (best, found))
        beam, token = np.divmod(best[:, :-1], self.words)
        of = lambda v: np.take_along_axis(v, beam.reshape(*beam.shape, *(v.ndim - 2) * [1]), 1)
        words = of(words)
        words[:, :, at] = token
        state = of(h), of(c), token, found[:, :-1], of(ended) | (token == self.END), words
        return state, found[:, -2] - found[:, -1]

    @functools.cached_property
    def found(self):
        """(words of the best beam, trips, the smallest margin) of each row."""
        w = {**{name: self.exact(name) for name in self.weights}, "lstm": self.exact_lstm("lstm")}
        each = lambda v: np.repeat(v[:, None], self.BEAMS, 1)
        h, c = (each(self.inputs[name].astype(np.float64)) for name in "hc")
        shape = self.rows, self.BEAMS
        state = (h, c, each(self.inputs["first"][:, 0]), np.broadcast_to(self.begins.astype(np.float64), shape),
                 np.zeros(shape, bool), np.zeros((*shape, self.most), np.int32))
        there, found, margins = np.arange(self.rows), [None] * self.rows, np.full(self.rows, np.inf)
        for at in range(self.most):
            state, margin = self.trip(w, state, at)
            margins[there] = np.minimum(margins[there], margin)
            goes_on = ~state[4].all(1) if at + 1 < self.most else np.zeros(len(there), bool)
            for i in np.flatnonzero(~goes_on):
                score, words = state[3][i], state[5][i]
                found[there[i]] = words[0], at + 1, min(margins[there[i]], score[0] - score[1])
            state, there = [v[goes_on] for v in state], there[goes_on]
            if not len(there):
                return found

    @property
    def truth(self):
        return np.stack([words for words, _, _ in self.found])

    @property
    def margin(self):
        return min(margin for _, _, margin in self.found)

    @property
    def steps(self):
        return max(trips for _, trips, _ in self.found)

    @property
    def flops(self):
        return 2 * sum(trips for _, trips, _ in self.found) * self.BEAMS * self.units * (8 * self.units + self.words)

    @property
    def reads(self):
        return sum(w.nbytes for name, w in self.weights.items() if name != "embedding"), self.steps


class Grows(Deciding):
    """Trees that decide while they grow how far: a vertex makes 0, 1 or 2 children, as the largest of three scores of
    its state says, but none at the last depth; what child k of it has is tanh(U_k state + b). Vertices are numbered
    depth by depth, in the order of those that made them; rows that none becomes have zeros."""
    forms = ("a path a child", "both products")
    STATE = 64
    MORE = (-0.6, 0.0, 0.6)  # what the scores of 0, 1 and 2 children have

    def __init__(self, name, roots, depth):
        super().__init__(name)
        self.roots, self.depth = roots, depth
        self.room = roots * (2 ** depth - 1)
        n = self.STATE
        self.inputs["x"] = self.normal(roots, n)
        self.weights = {"u": self.normal(2 * n, n, spread=1.5 * n ** -0.5), "b": self.normal(n, spread=0.1),
                        "count.weight": self.normal(3, n, spread=n ** -0.5),
                        "count.bias": np.array(self.MORE, np.float32)}
        self.result_shape = (self.room, n)

    @functools.cached_property
    def levels(self):
        """The states of each depth."""
        u, b, count, bias = (self.exact(name) for name in ("u", "b", "count.weight", "count.bias"))
        levels, self.margin = [self.inputs["x"].astype(np.float64)], np.inf
        while len(levels) < self.depth and len(levels[-1]):
            scores = levels[-1] @ count.T + bias
            ranked = np.sort(scores)
            self.margin = min(self.margin, (ranked[:, 2] - ranked[:, 1]).min())
            made = np.arange(2) < scores.argmax(1)[:, None]
            both = (levels[-1] @ u.T).reshape(-1, 2, self.STATE)
            levels.append(np.tanh(both[made] + b))
        return levels

    @property
    def truth(self):
        states = np.concatenate(self.levels)
        return np.concatenate([states, np.zeros((self.room - len(states), self.STATE))])

    @property
    def steps(self):
        return sum(len(level) > 0 for level in self.levels)

    @property
    def flops(self):
        vertices, asked = (sum(len(level) for level in part) for part in (self.levels, self.levels[: self.depth - 1]))
        return 2 * self.STATE * ((vertices - self.roots) * self.STATE + 3 * asked)

    @property
    def reads(self):
        return sum(w.nbytes for w in self.weights.values()), self.steps
