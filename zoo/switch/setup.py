"""Switch-base in its sizes, MNLI's batch, and smaller ones."""

from dataclasses import dataclass

import torch
from mixtures import Mixture


@dataclass(frozen=True)
class Variant(Mixture):
    experts: int = 8
    layers: int = 12
    width: int = 768
    hidden: int = 3072
    heads: int = 12
    vocabulary: int = 32128
    batch: int = 8
    tokens: int = 128
    capacity: int = 64

    name, made = "switch", "Switch"
    gates, skew = "router", 0.3

    def inputs(self, number=0):
        """Token numbers of texts and answers."""
        random = torch.Generator().manual_seed(number)
        return [torch.randint(self.vocabulary, (self.batch, self.tokens), generator=random) for _ in range(2)]


VARIANTS = {str(experts): Variant(experts) for experts in (8, 16, 32, 64, 128, 256)}
VARIANTS["8, 4 layers"] = Variant(8, layers=4, vocabulary=512)  # as wide as all, of a size that is quick to make
VARIANTS["small"] = Variant(6, 4, 16, 32, 2, 64, 2, 12, 4)
