"""A case of product_cases.py as PyTorch calls on one thread, eager, inside inference mode."""

import time

import numpy as np
import torch
import torch.nn.functional as F

torch.set_num_threads(1)

ACT = {"relu": F.relu, "gelu": F.gelu, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "silu": F.silu}


def streamed(net, x, chunk):
    state, parts = None, []
    for part in x.split(chunk):
        y, state = net(part, state)
        parts.append(y)
    return torch.cat(parts)


class TorchCase:
    name = "torch"

    def __init__(self, case, inputs, weights):
        self.case, a = case, case.arguments
        self.inputs = [torch.from_numpy(x[None] if case.kind == "conv" else x) for x in inputs]
        w = {k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in weights.items()}
        weight, bias = w.get("op.weight"), w.get("op.bias")
        act = ACT.get(case.activation())
        if case.kind == "matmul" and a[4]:
            weight = weight.transpose(1, 2)
        op = {"linear": lambda x: F.linear(x, weight, bias),
              "matmul": lambda x: torch.matmul(x, weight),
              "softmax": lambda x: F.softmax(x, -1),
              "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:], weight, bias),
              "heads": lambda x: x.view(a[0], a[2], a[1] // a[2]).transpose(0, 1).contiguous(),
              "conv": lambda x: F.conv2d(x, weight, bias, a[4], a[3] // 2, 1, a[5])}.get(case.kind)
        if case.kind == "lstm":
            net = torch.nn.LSTM(a[2], a[3], a[4])
            net.load_state_dict({f"{k.split('.')[1]}_l{k[2]}": v for k, v in w.items()})
            op = (lambda x: streamed(net, x, a[5])) if case.stream else lambda x: net(x)[0]
        self.op = (lambda x: act(op(x))) if op and act else op or act
        self.results = [None] * len(inputs)

    def run(self, times):
        with torch.inference_mode():
            since = time.process_time()
            for _ in range(times):
                for i, x in enumerate(self.inputs):
                    self.results[i] = self.op(x)
            return time.process_time() - since

    def result(self, index=0):
        return self.results[index].numpy().reshape(self.case.result_shape)
