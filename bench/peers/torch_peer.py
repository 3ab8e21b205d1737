"""The net in PyTorch. Its ways of running are peers of their own; the caller keeps the quickest."""

import logging
import warnings

import numpy as np
import torch
import torch.nn.functional as F

from nets import bicubic_filter
from stopwatch import Stopwatch

warnings.filterwarnings("ignore", category=FutureWarning)  # that torch.jit is on its way out
logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)  # that there is no GPU


class Net(torch.nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.steps = torch.nn.ModuleList()
        for weight, bias, slopes in layers:
            out, into, kernel, _ = weight.shape
            step = torch.nn.Conv2d(into, out, kernel, padding=kernel // 2)
            step.weight.data, step.bias.data = torch.from_numpy(weight), torch.from_numpy(bias)
            self.steps.append(step)
            if slopes is not None:
                act = torch.nn.PReLU(out)
                act.weight.data = torch.from_numpy(slopes)
                self.steps.append(act)
        self.base = torch.nn.Parameter(torch.from_numpy(bicubic_filter()))

    def forward(self, x):
        y = x
        for step in self.steps:
            y = step(y)
        return F.pixel_shuffle(y + F.conv2d(F.pad(x, (2, 2, 2, 2), mode="replicate"), self.base), 2)


class TorchPeer:
    def __init__(self, way, layers, shape):
        torch.set_num_threads(1)
        self.name = f"torch {torch.__version__.split('+')[0]} {way}"
        self.channels_last = "last" in way
        net = Net(layers).eval()
        if self.channels_last:
            net = net.to(memory_format=torch.channels_last)
        example = self.tensor(np.full(shape, 0.5, np.float32))
        with torch.inference_mode():
            if "jit" in way:
                net = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(net, example)))
            if "compile" in way:
                import torch._inductor.config as config

                config.freezing = True
                net = torch.compile(net)
            for _ in range(3):
                net(example)
        self.net = net

    def tensor(self, x):
        t = torch.from_numpy(x)[None, None]
        return t.contiguous(memory_format=torch.channels_last) if self.channels_last else t

    def run(self, x):
        """f32 [h, w] -> (stopwatch, f32 [2h, 2w])."""
        t = self.tensor(x)
        with torch.inference_mode(), Stopwatch() as watch:
            y = self.net(t)
        return watch, y.numpy()[0, 0]


def ways(compiled):
    always = ["eager", "eager channels-last", "jit", "jit channels-last"]
    return always + ["compile", "compile channels-last"] * compiled
