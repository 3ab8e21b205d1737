"""LiveSR in its sizes: subnets / channels, with the loads that were reported.

Centres are such that the patches of a frame go to subnets as the loads say, whatever the random classifier sees in
them: in 512 dimensions any 88 patches can be told apart.
"""

from dataclasses import dataclass, replace

import common
import derive
import torch

# The most patches that each subnet had of a frame, as reported for so many subnets.
LOADS = {10: [6, 7, 12, 27, 8, 8, 8, 12, 12, 4], 8: [21, 8, 16, 11, 20, 8, 7, 15], 6: [9, 32, 18, 16, 18, 7],
         4: [19, 25, 18, 36]}


@dataclass(frozen=True)
class Variant:
    subnets: int
    n: int
    blocks: int = 80
    width: int = 64
    size: int = 32
    patches: int = 88

    @property
    def rows(self):
        """Axis 0 is free in our file, up to so many."""
        return self.patches

    @property
    def config(self):
        return dict(subnets=self.subnets, n=self.n, blocks=self.blocks, width=self.width)

    def inputs(self):
        """Patches of some brightness each, with some noise."""
        random = torch.Generator().manual_seed(5)
        ramp = torch.linspace(0, 1, self.size)
        slopes = torch.rand(self.patches, 3, 2, 1, 1, generator=random) - 0.5
        base = torch.rand(self.patches, 3, 1, 1, generator=random)
        noise = 0.1 * torch.rand(self.patches, 3, self.size, self.size, generator=random)
        return [base + slopes[:, :, 0] * ramp + slopes[:, :, 1] * ramp[:, None] + noise]

    def loads(self):
        """As reported, for as many patches as there are."""
        parts = torch.tensor(LOADS[self.subnets], dtype=torch.float64)
        ends = (parts.cumsum(0) / parts.sum() * self.patches).round().long()
        return torch.diff(ends, prepend=torch.zeros(1, dtype=torch.long)).tolist()

    def plain(self):
        net = common.seeded(common.loaded("livesr", "plain").LiveSR(**self.config), 1, {"conv2": 0.1})
        with torch.no_grad():
            features = net.classifier(*self.inputs())
            net.centres.copy_(centres(features.double(), self.loads()))
        return net

    def dynamic(self, plain=None):
        made = common.loaded("livesr", "dynamic").LiveSR(**self.config)
        return common.with_weights_of(made, plain or self.plain())

    def onnx(self, net, path, folder):
        """Of one depth there is one export, that of 10 subnets of 8 channels; other weights are written into it."""
        import onnx
        most = replace(self, subnets=max(LOADS), n=8)
        model = derive.base(folder, f"livesr.{self.blocks}_{self.width}_{self.size}", most.dynamic, self.inputs(),
                            self.rows)
        model = derive.with_paths(model, self.subnets)
        onnx.save(derive.with_weights(model, net, kept=("classifier.",)), path)


def centres(features, loads):
    """One for each load, of equal lengths, so that patch after patch, in an order from a seed, is nearest to its
    own."""
    order = torch.randperm(len(features), generator=torch.Generator().manual_seed(6))
    wanted = torch.zeros(len(features), len(loads), dtype=torch.float64)
    wanted[order, torch.repeat_interleave(torch.arange(len(loads)), torch.tensor(loads))] = 1
    found = torch.linalg.lstsq(features, wanted, driver="gelsd").solution.T
    found = found * (features.norm(dim=1).mean() / found.norm(dim=1).max())
    outside = torch.linalg.svd(features, full_matrices=True).Vh[-1]  # orthogonal to all patches
    lengths = found.square().sum(1)
    return found + (lengths.max() - lengths).clamp_min(0).sqrt()[:, None] * outside


VARIANTS = {f"{subnets}/{n}": Variant(subnets, n) for subnets, n in
            ((10, 8), (8, 8), (6, 8), (4, 8), (10, 12), (10, 16), (10, 20))}
VARIANTS["small"] = Variant(4, 4, blocks=2, width=4, size=8, patches=11)
