"""Networks that decide while they run as PyTorch programs, eager."""

import torch
import torch.nn.functional as F

from time_decide import Beam, Grows
from time_skipnet import Skipnet
from time_torch import TorchLoop


class TorchBeam(TorchLoop):
    """All rows go on until the last one is done: those that are done stay as they are."""

    def __init__(self, net):
        super().__init__(net)
        self.cell = torch.nn.LSTMCell(net.units, net.units)
        self.cell.load_state_dict({name[5:]: w for name, w in self.w.items() if name.startswith("lstm.")})
        self.begins, self.ends = torch.from_numpy(net.begins), torch.from_numpy(net.ends)

    def once(self):
        net, w, k = self.net, self.w, self.net.BEAMS
        rows = torch.arange(net.rows)[:, None] * k
        token = self.x["first"].expand(-1, k).reshape(-1)
        h, c = (self.x[name].repeat_interleave(k, 0) for name in "hc")
        score, ended = self.begins.expand(net.rows, k), torch.zeros(net.rows, k, dtype=torch.bool)
        words = torch.zeros(net.rows * k, net.most, dtype=torch.int32)
        for at in range(net.most):
            h, c = self.cell(F.embedding(token, w["embedding"]), (h, c))
            more = F.log_softmax(F.linear(h, w["words.weight"], w["words.bias"]), 1).view(net.rows, k, -1)
            more = torch.where(ended[..., None], self.ends, more)
            score, best = (score[..., None] + more).flatten(1).topk(k)
            beam, word = best // net.words, best % net.words
            of = (rows + beam).view(-1)
            token, h, c, words = word.view(-1), h[of], c[of], words[of]
            words[:, at] = token
            ended = ended.gather(1, beam) | (word == net.END)
            if ended.all():
                break
        return words.view(net.rows, k, -1)[:, 0]


class TorchGrows(TorchLoop):
    """once() gives the vertices that there are, depth by depth."""

    def result(self):
        return F.pad(self.y, (0, 0, 0, self.net.room - len(self.y))).numpy()


class Levels(TorchGrows):
    """All vertices of a depth at once."""

    def once(self):
        net, w, state = self.net, self.w, self.x["x"]
        levels, children = [state], torch.arange(2)
        while len(levels) < net.depth and len(state):
            makes = F.linear(state, w["count.weight"], w["count.bias"]).argmax(1)
            both = F.linear(state, w["u"]).view(-1, 2, net.STATE)
            state = torch.tanh(both[children < makes[:, None]] + w["b"])
            levels.append(state)
        return torch.cat(levels)


class Recursion(TorchGrows):
    """Vertex after vertex, each root's whole tree before the next."""
    name = "recursion"

    def __init__(self, net):
        super().__init__(net)
        self.u = self.w["u"].chunk(2)

    def grow(self, state, levels):
        levels[0].append(state)
        if len(levels) > 1:
            for u in self.u[: int(F.linear(state, self.w["count.weight"], self.w["count.bias"]).argmax())]:
                self.grow(torch.tanh(F.linear(state, u, self.w["b"])), levels[1:])

    def once(self):
        levels = [[] for _ in range(self.net.depth)]
        for state in self.x["x"].unbind():
            self.grow(state, levels)
        return torch.stack([state for level in levels for state in level])


class TorchSkipnet(TorchLoop):
    """Of a batch the images that keep a block are taken out, where some do not; one image is asked for."""

    def __init__(self, net):
        super().__init__(net)
        self.cell = torch.nn.LSTMCell(net.EMBED, net.EMBED)
        self.cell.load_state_dict({name[5:]: w for name, w in self.w.items() if name.startswith("lstm.")})

    def linear(self, x, name):
        return F.linear(x, self.w[f"{name}.weight"], self.w[f"{name}.bias"])

    def conv(self, x, name, stride=1):
        weight = self.w[f"{name}.weight"]
        return F.conv2d(x, weight, self.w[f"{name}.bias"], stride, weight.shape[-1] // 2)

    def block(self, x, name, stride):
        y = torch.relu(self.conv(torch.relu(self.conv(x, f"{name}.a")), f"{name}.b", stride))
        y = self.conv(y, f"{name}.c")
        return torch.relu(y + (self.conv(x, f"{name}.shortcut", stride) if name.endswith(".0") else x))

    def once(self):
        x = F.max_pool2d(torch.relu(self.conv(self.x["x"], "first", 2)), 3, 2, 1)
        state = None
        for name, _, stride, gated in self.net.blocks():
            if not gated:
                x = self.block(x, name, stride)
                continue
            state = self.cell(self.linear(x.mean((2, 3)), f"{name}.gate"), state)
            kept = (torch.sigmoid(self.linear(state[0], "gate")) > 0.5).nonzero()[:, 0]
            if len(kept) == len(x):
                x = self.block(x, name, stride)
            elif len(kept):
                x = x.index_copy(0, kept, self.block(x[kept], name, stride))
        return self.linear(x.mean((2, 3)), "last")


LOOPS = {Beam: [TorchBeam], Grows: [Recursion, Levels], Skipnet: [TorchSkipnet]}


def made(net):
    return [loop(net) for loop in LOOPS[type(net)]]
