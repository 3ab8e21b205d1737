"""every_exit(): what each exit of a network says of every row, in eval mode, to choose thresholds by.

Relies on markers.Exit, which tells while it is asked (Exit.told). Must never change the network: modes, batch norms and
results stay what they were.
"""

from dataclasses import dataclass

import torch

from .markers import Exit


@dataclass
class Exits:
    logits: list                # a tensor [rows, ...] of each exit, the end of the network last
    confidences: torch.Tensor   # [rows, exits], as Exit.confidence has them
    result: object              # what the network gives, with the thresholds that it has

    def correct(self, labels):
        """[rows, exits]: whether the largest of an exit's logits is the row's label."""
        return torch.stack([logits.argmax(-1) == labels for logits in self.logits], 1)


def _asked(net, exits, inputs):
    modes = {module: module.training for module in net.modules()}
    told = []
    net.eval()
    for module in exits:
        module.told = told
    try:
        with torch.no_grad():
            return net(*inputs), told
    finally:
        for module in exits:
            module.told = None
        for module, training in modes.items():
            module.training = training


def every_exit(net, *inputs):
    """Runs net(*inputs) in eval mode, every row through every exit."""
    exits = [module for module in net.modules() if isinstance(module, Exit)]
    result, told = _asked(net, exits, inputs)
    if not exits or len(told) != len(exits) + 1:
        raise ValueError(f"the network has {len(exits)} Exit, which told of {max(len(told) - 1, 0)} exits and an end: "
                         "expected one or more, each in the rest of the one before, and run once")
    confidences = torch.cat([module.confidence(logits) for module, logits in told], 1)
    return Exits([logits for _, logits in told], confidences, result)
