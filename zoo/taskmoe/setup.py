"""TaskMoE in its sizes: sequences x tokens as judged, a batch for one thread, and a small one."""

from dataclasses import dataclass

import torch
from mixtures import Mixture


@dataclass(frozen=True)
class Variant(Mixture):
    batch: int = 256
    tokens: int = 32
    experts: int = 16
    layers: int = 6
    width: int = 512
    hidden: int = 2048
    heads: int = 8
    vocabulary: int = 50358

    name, made = "taskmoe", "TaskMoE"

    def inputs(self, number=0):
        """Token numbers, and the task of each sequence."""
        random = torch.Generator().manual_seed(number)
        return [torch.randint(self.vocabulary, (self.batch, self.tokens), generator=random),
                torch.randint(self.experts, (self.batch,), generator=random)]


SHAPES = ((256, 32), (256, 64), (512, 32), (16, 32))
VARIANTS = {f"{batch}x{tokens}": Variant(batch, tokens) for batch, tokens in SHAPES}
VARIANTS["small"] = Variant(7, 6, 4, 2, 16, 32, 2, 64)
