"""Networks that decide, in PyTorch: modules that decide in eager mode as they will here, and stay visible in an export.

    from brainstorm.torch import Routed, Exit, Patches, calibrate

    self.moe = Routed(experts, k=2)                # y = self.moe(x, scores)
    self.rest = Exit(head, rest, threshold=0.9)    # y = self.rest(x)
    self.net = Patches(net, size=64)               # y = self.net(frame)

then torch.onnx.export(..., dynamo=True) and `python3 -m brainstorm.onnx`: docs/torch.md. Only the modules need torch;
calibrate.py needs NumPy.
"""

from .calibrate import Calibration, calibrate  # noqa: F401

MARKERS = ("Routed", "Exit", "Patches")


def __getattr__(name):
    if name in MARKERS:
        from . import markers
        return getattr(markers, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
