"""Networks over trees and graphs as PyTorch programs: vertex after vertex, as a recursion computes them, and level by
level, all vertices of a level at once. Which vertices these are is found before the time is taken."""

import torch
import torch.nn.functional as F

from time_torch import TorchLoop
from time_trees import Counted, Dag, TreeFc, TreeLstm


def lstm_leaves(net, w, x):
    i, o, u, _ = F.linear(x, w["w"], w["b"]).chunk(4, -1)
    c = torch.sigmoid(i) * torch.tanh(u)
    return torch.sigmoid(o) * torch.tanh(c), c


def lstm_step(net, w, h, c):
    """h, c: [..., children, units]"""
    b = w["b"]
    i, o, u = F.linear(h.sum(-2), w["u_iou"], b[: 3 * net.units]).chunk(3, -1)
    f = torch.sigmoid(F.linear(h, w["u_f"], b[3 * net.units :]))
    c = torch.sigmoid(i) * torch.tanh(u) + (f * c).sum(-2)
    return torch.sigmoid(o) * torch.tanh(c), c


class Recursion(TorchLoop):
    """Vertex after vertex. Children come before theirs: the order of a recursion, without its calls."""
    name = "recursion"

    def __init__(self, net):
        super().__init__(net)
        self.below = [[int(child) for child in row if child >= 0] for row in net.below]

    def once(self):
        net, w, x = self.net, self.w, self.x["x"]
        if type(net) is TreeLstm:
            state = [lstm_leaves(net, w, row) for row in x.unbind()]
            for row in self.below:
                state.append(lstm_step(net, w, *(torch.stack(v) for v in zip(*(state[child] for child in row)))))
            return torch.stack([h for h, _ in state])
        if type(net) is TreeFc:
            h = list(x.unbind())
            for row in self.below:
                h.append(torch.tanh(F.linear(torch.cat([h[child] for child in row]), w["w"], w["b"])))
            return torch.stack(h)
        h = [torch.tanh(F.linear(row, w["w"])) for row in x[: net.leaves].unbind()]
        for own, row in zip(x[net.leaves :].unbind(), self.below):
            h.append(torch.tanh(F.linear(own, w["w"]) + F.linear(sum(h[child] for child in row), w["u"])))
        return torch.stack(h)


class Levels(TorchLoop):
    """A vertex that is not there has a row of zeros behind all others."""
    name = "torch"

    def __init__(self, net):
        super().__init__(net)
        below = torch.from_numpy(net.below).long()
        below[below < 0] = net.vertices
        level = torch.from_numpy(net.level)
        self.rows = [(level == n).nonzero()[:, 0] for n in range(2, net.steps + 1)]
        self.children = [below[rows - net.leaves] for rows in self.rows]

    def once(self):
        net, w, x = self.net, self.w, self.x["x"]
        h, c = torch.zeros(net.vertices + 1, net.units), torch.zeros(net.vertices + 1, net.units)
        if type(net) is TreeLstm:
            h[: net.leaves], c[: net.leaves] = lstm_leaves(net, w, x)
        elif type(net) is Dag:
            x = F.linear(x, w["w"])
            h[: net.leaves] = torch.tanh(x[: net.leaves])
        else:
            h[: len(x)] = x
        for rows, children in zip(self.rows, self.children):
            if type(net) is TreeLstm:
                h[rows], c[rows] = lstm_step(net, w, h[children], c[children])
            elif type(net) is TreeFc:
                h[rows] = torch.tanh(F.linear(h[children].flatten(1), w["w"], w["b"]))
            elif type(net) is Dag:
                h[rows] = torch.tanh(x[rows] + F.linear(h[children].sum(1), w["u"]))
            else:
                h[rows] += h[children].sum(1)
        return h[: net.vertices]


def made(net):
    return [Levels(net)] if type(net) is Counted else [Recursion(net), Levels(net)]
