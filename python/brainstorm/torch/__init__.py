"""Networks that decide, in PyTorch: modules that decide in eager mode as they will here, and stay visible in an export.

    from brainstorm.torch import Routed, Gated, Exit, Patches, calibrate, every_exit, export

    self.moe = Routed(experts, k=2)                # y = self.moe(x, scores)
    self.up = Gated(up, threshold=0.1)             # y = self.up(x, gates)
    self.rest = Exit(head, rest, threshold=0.9)    # y = self.rest(x)
    self.net = Patches(net, size=64)               # y = self.net(frame)

    every_exit(net, x).confidences                 # [rows, exits], for calibrate()
    export(model, inputs, "model.gguf")            # or torch.onnx.export and `python -m brainstorm import`

docs/torch.md tells more. calibrate.py needs NumPy only, all else torch.
"""

import importlib

from .calibrate import Calibration, calibrate  # noqa: F401

MARKERS = {"Routed": "markers", "Exit": "markers", "Patches": "markers", "Gated": "gated",
           "every_exit": "exits"}  # the file of each


def __getattr__(name):
    if name in MARKERS:
        return getattr(importlib.import_module(f".{MARKERS[name]}", __name__), name)
    if name == "export":
        from .exporting import export
        return export
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
