"""SwinV2-MoE in its sizes: the capacity factors and the batch as judged, a batch for one thread, and a small one."""

from dataclasses import dataclass

import torch
from mixtures import Mixture


@dataclass(frozen=True)
class Variant(Mixture):
    factor: float = 1.25  # of capacity
    batch: int = 128
    experts: int = 16
    image: int = 192
    window: int = 12
    width: int = 96
    depths: tuple = (2, 2, 18, 2)
    heads: tuple = (3, 6, 12, 24)
    position: int = 512   # width of the net of relative positions
    classes: int = 21841

    name, made = "swinmoe", "SwinMoE"
    gates, skew = "gate", 0.2

    def inputs(self, number=0):
        """Images of soft colours."""
        random = torch.Generator().manual_seed(number)
        coarse = torch.rand(self.batch, 3, self.image // 8, self.image // 8, generator=random)
        return [torch.nn.functional.interpolate(coarse, scale_factor=8, mode="bilinear")]


VARIANTS = {f"factor {factor}": Variant(factor) for factor in (1.25, 2.0, 3.0, 4.0)}
VARIANTS |= {f"factor {factor}, batch 2": Variant(factor, 2) for factor in (1.25, 2.0, 3.0, 4.0)}
SMALL = {"batch": 3, "experts": 4, "image": 64, "window": 4, "width": 4, "depths": (1, 2, 4, 2), "heads": (1, 2, 2, 4),
         "position": 8, "classes": 10}
VARIANTS["small"] = Variant(1.25, **SMALL)
VARIANTS |= {f"small, factor {factor}": Variant(factor, **SMALL) for factor in (2.0, 3.0, 4.0)}
