"""The feed-forward part of one layer that is a mixture of experts, wherever its weights come from; and its checks.

    share = softmax(router x), or sigmoid            of each expert
    y = scale sum of share_e down_e (silu(gate_e x) * up_e x)    over the k experts with the highest shares

Must never know a file's format.
"""

from dataclasses import dataclass, field
from typing import Any, Optional

import numpy as np

from ..ops import MAX_PATHS


class Refused(ValueError):
    """Why a mixture is not imported, in words for its owner."""


GATINGS = ("softmax", "sigmoid")


@dataclass
class Mixture:
    number: int       # of the layer
    router: Any       # [experts, d]
    gate: Any         # [experts, f, d]
    up: Any           # [experts, f, d]
    down: Any         # [experts, d, f]
    k: int            # experts of a row
    gating: str = "softmax"
    normalise: bool = True  # shares of the chosen ones sum to 1
    scale: float = 1.0
    norm: Optional[Any] = None        # [d]: y = x + of the normed rows
    epsilon: float = 1e-5
    router_bias: Optional[Any] = None  # [experts]
    shared: dict = field(default_factory=dict)  # an expert of all rows: gate, up, down; router [1, d] is its share

    def __post_init__(self):
        name = f"layer {self.number}"
        if np.ndim(self.router) != 2:
            raise Refused(f"{name}: its router has the shape {np.shape(self.router)}, expected [experts, d]")
        experts, d = np.shape(self.router)
        if np.ndim(self.gate) != 3:
            raise Refused(f"{name}: gates of experts have the shape {np.shape(self.gate)}, expected [experts, f, d]")
        inner = np.shape(self.gate)[1]
        wanted = {"gate": (experts, inner, d), "up": (experts, inner, d), "down": (experts, d, inner), "norm": (d,),
                  "router_bias": (experts,)}
        for what, shape in wanted.items():
            array = getattr(self, what)
            if array is not None and np.shape(array) != shape:
                raise Refused(f"{name}: {what} has the shape {list(np.shape(array))}, expected {list(shape)}")
        if not 1 <= self.k <= experts <= MAX_PATHS:
            raise Refused(f"{name}: {self.k} of {experts} experts, expected 1 .. {MAX_PATHS} of them")
        if self.gating not in GATINGS:
            raise Refused(f"{name}: gating {self.gating!r}, expected one of {', '.join(GATINGS)}")
        if not (abs(self.scale) < 1e30 and 0 < self.epsilon < 1e30):
            raise Refused(f"{name}: a scale of {self.scale} and an epsilon of {self.epsilon}")
        self._check_shared(name, d)

    def _check_shared(self, name, d):
        if not self.shared:
            return
        inner = np.shape(self.shared["gate"])[0] if np.ndim(self.shared["gate"]) == 2 else -1
        wanted = {"gate": (inner, d), "up": (inner, d), "down": (d, inner), "router": (1, d)}
        for what, array in self.shared.items():
            if np.shape(array) != wanted[what]:
                raise Refused(f"{name}: {what} of the shared expert has the shape {list(np.shape(array))}")

    @property
    def width(self):
        return np.shape(self.router)[1]

    @property
    def experts(self):
        return np.shape(self.router)[0]
