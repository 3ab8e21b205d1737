"""Networks with loops as PyTorch programs on one thread, eager, inside inference mode.

torch.nn.LSTM where it has the form: rows of different lengths as a packed sequence, packed before the time is taken.
Else loops in Python, whose products are as few as they can be.
"""

import numpy as np
import torch
import torch.nn.functional as F

from network_torch import TorchTimed
from product_torch import TorchCase
from time_forms import Attention, Blockdrop, Lstm, Nasrnn, Seq2seq, Trips

torch.set_num_threads(1)


class TorchLoop(TorchTimed):
    """once() gives the result."""
    name = "torch"

    def __init__(self, net):
        self.net = net
        self.w = {name: torch.from_numpy(w) for name, w in net.weights.items()}
        self.x = {name: torch.from_numpy(np.ascontiguousarray(x)) for name, x in net.inputs.items()}

    def result(self):
        return self.y.numpy()


class TorchPacked(TorchLoop):
    def __init__(self, net):
        super().__init__(net)
        _, _, inputs, units, layers, _ = net.case.arguments
        self.module = torch.nn.LSTM(inputs, units, layers)
        self.module.load_state_dict({f"{k.split('.')[1]}_l{k[2]}": w for k, w in self.w.items()})
        self.packed = torch.nn.utils.rnn.pack_padded_sequence(self.x["x"], torch.tensor(net.lengths),
                                                              enforce_sorted=False)

    def once(self):
        return self.module(self.packed)[0]

    def result(self):
        return torch.nn.utils.rnn.pad_packed_sequence(self.y, total_length=self.net.steps)[0].numpy()


class TorchNasrnn(TorchLoop):
    def once(self):
        net, out = self.net, []
        m = c = torch.zeros(net.rows, net.units)
        weight = self.w["weight_hh"].T
        for i in F.linear(self.x["x"], self.w["weight_ih"]).unbind():
            i, h = i.chunk(net.GATES, 1), (m @ weight).chunk(net.GATES, 1)
            left = torch.tanh(torch.sigmoid(i[0] + h[0]) * torch.relu(i[1] + h[1]))
            right = torch.tanh(torch.sigmoid(i[2] + h[2]) + torch.relu(i[3] * h[3]))
            up = torch.tanh(torch.tanh(i[4] + h[4]) * torch.sigmoid(i[5] + h[5]))
            down = torch.sigmoid(torch.tanh(i[6] + h[6]) + torch.sigmoid(i[7] + h[7]))
            c = torch.tanh(left + c) * right
            m = torch.tanh(c * torch.tanh(up + down))
            out.append(m)
        return torch.stack(out)


class TorchAttention(TorchLoop):
    def once(self):
        net, out = self.net, []
        x, k, v = self.x["x"], self.x["k"].clone(), self.x["v"].clone()
        for at in range(net.first, net.last):
            q, k[:, :, at], v[:, :, at] = torch.bmm(x, self.w["qkv"]).chunk(3, -1)
            read = F.scaled_dot_product_attention(q.unsqueeze(2), k, v).squeeze(2)
            x = x + torch.bmm(read, self.w["o"])
            out.append(x)
        return torch.stack(out)


class TorchSeq2seq(TorchLoop):
    def __init__(self, net):
        super().__init__(net)
        self.cell = torch.nn.LSTMCell(net.units, net.units)
        self.cell.load_state_dict({name[5:]: w for name, w in self.w.items() if name.startswith("lstm.")})

    def once(self):
        net, w = self.net, self.w
        token, h, c = self.x["first"][:, 0], self.x["h"], self.x["c"]
        words = torch.zeros(net.rows, net.most, dtype=torch.int32)
        goes_on = torch.ones(net.rows, dtype=torch.bool)
        for at in range(net.most):
            h, c = self.cell(F.embedding(token, w["embedding"]), (h, c))
            token = F.linear(h, w["words.weight"], w["words.bias"]).argmax(1)
            words[:, at] = torch.where(goes_on, token, 0)
            goes_on &= token != net.END
            if not goes_on.any():
                break
        return words


class TorchTrips(TorchLoop):
    def once(self):
        x, one = self.x["x"], self.w["one"]
        for _ in range(self.net.steps):
            x = x + one
        return x


class TorchBlockdrop(TorchLoop):
    """Of a batch the images that a block is for are taken out; one image is asked for."""

    def conv(self, x, name, stride=1):
        weight = self.w[f"{name}.weight"]
        return F.conv2d(x, weight, self.w[f"{name}.bias"], stride, weight.shape[-1] // 2)

    def once(self):
        x, policy = torch.relu(self.conv(self.x["x"], "first")), self.x["policy"]
        for number, name, stride, shortcut in self.net.blocks():
            block = lambda x: self.conv(torch.relu(self.conv(x, f"{name}.a", stride)), f"{name}.b")
            y = self.conv(x, shortcut, stride) if shortcut else x
            kept = policy[:, number].nonzero()[:, 0]
            if len(kept) == len(x):
                y = y + block(x)
            elif len(kept):
                y = y.index_add(0, kept, block(x[kept]))
            x = torch.relu(y)
        return F.linear(x.mean((2, 3)), self.w["last.weight"], self.w["last.bias"])


LOOPS = {Blockdrop: TorchBlockdrop, Nasrnn: TorchNasrnn, Attention: TorchAttention, Seq2seq: TorchSeq2seq,
         Trips: TorchTrips}


def made(net):
    if type(net) is not Lstm:
        return LOOPS[type(net)](net)
    return TorchCase(net.case, [net.inputs["x"]], net.weights) if net.lengths is None else TorchPacked(net)
