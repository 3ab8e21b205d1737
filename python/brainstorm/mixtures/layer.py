"""The feed-forward part of one layer that is a mixture of experts, wherever its weights come from; and its checks.

    share = softmax(router x), or sigmoid            of each expert
    y = scale sum of share_e down_e (act(gate_e x) * up_e x)    over the k experts with the highest shares,
                                                     or the highest share + choice_bias

act swiglu_oai is gpt-oss's: g sigmoid(1.702 g) (u + 1), of g = min(gate_e x, 7) and u = up_e x between -7 and 7.
Must never know a file's format.
"""

from dataclasses import dataclass, field
from typing import Any, Callable, Optional

import numpy as np

from ..ops import MAX_PATHS


class Refused(ValueError):
    """Why a mixture is not imported, in words for its owner."""


GATINGS = ("softmax", "sigmoid")
ACTIVATIONS = ("silu", "gelu", "relu", "swiglu_oai")


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
    act: str = "silu"
    residual: float = 1.0              # y = x + residual times what the experts give
    gate_bias: Optional[Any] = None    # [experts, f]
    up_bias: Optional[Any] = None      # [experts, f]
    down_bias: Optional[Any] = None    # [experts, d]
    choice_bias: Optional[Any] = None  # [experts]: of the choice alone; shares stay as they are
    notes: tuple = ()                  # what was assumed, in words for its owner
    # rows [n, d], bare -> published.Answer: by the file's arrays as they are; None: there is nothing to compare with
    published: Optional[Callable] = None

    def __post_init__(self):
        name = f"layer {self.number}"
        if np.ndim(self.router) != 2:
            raise Refused(f"{name}: its router has the shape {list(np.shape(self.router))}, expected [experts, d]")
        experts, d = np.shape(self.router)
        if np.ndim(self.gate) != 3:
            raise Refused(f"{name}: gates of experts have the shape {list(np.shape(self.gate))}, expected "
                          "[experts, f, d]")
        inner = np.shape(self.gate)[1]
        shapes = {"router": (experts, d), "gate": (experts, inner, d), "up": (experts, inner, d),
                  "down": (experts, d, inner), "norm": (d,), "router_bias": (experts,), "choice_bias": (experts,),
                  "gate_bias": (experts, inner), "up_bias": (experts, inner), "down_bias": (experts, d)}
        for what, shape in shapes.items():
            check_array(f"{name}: {what}", getattr(self, what), shape)
        self._check_numbers(name, experts)
        self._check_shared(name, d)

    def _check_numbers(self, name, experts):
        if not 1 <= self.k <= experts <= MAX_PATHS:
            raise Refused(f"{name}: {self.k} of {experts} experts, expected 1 .. {MAX_PATHS} of them")
        for what, word, known in (("gating", self.gating, GATINGS), ("activation", self.act, ACTIVATIONS)):
            if word not in known:
                raise Refused(f"{name}: {what} {word!r}, expected one of {', '.join(known)}")
        if not (abs(self.scale) < 1e30 and 0 < self.epsilon < 1e30 and abs(self.residual) < 1e30):
            raise Refused(f"{name}: a scale of {self.scale}, an epsilon of {self.epsilon} and a factor of "
                          f"{self.residual} of what is added")

    def _check_shared(self, name, d):
        if not self.shared:
            return
        inner = np.shape(self.shared["gate"])[0] if np.ndim(self.shared["gate"]) == 2 else -1
        shapes = {"gate": (inner, d), "up": (inner, d), "down": (d, inner), "router": (1, d)}
        for what, array in self.shared.items():
            check_array(f"{name}: {what} of the shared expert", array, shapes[what])

    @property
    def width(self):
        return np.shape(self.router)[1]

    @property
    def experts(self):
        return np.shape(self.router)[0]


def check_array(what, array, shape):
    """Fails unless it is None, or real numbers of that shape."""
    if array is None:
        return
    if np.shape(array) != shape:
        raise Refused(f"{what} has the shape {list(np.shape(array))}, expected {list(shape)}")
    if np.asarray(array).dtype.kind != "f":
        raise Refused(f"{what} is of type {np.asarray(array).dtype}, expected f32 or f16")
