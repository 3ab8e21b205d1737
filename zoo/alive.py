"""alive.py - the most bytes of tensors that PyTorch has alive in a run, beside what was there before it.

Owns: the counting. Relies on: torch. Must never: count a storage twice, or one that is a weight or an input.
"""

import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def storages(tree):
    return [x.untyped_storage() for x in tree_leaves(tree) if isinstance(x, torch.Tensor)]


class Alive(TorchDispatchMode):
    """Counts what ops make, until nobody has it any more."""

    def __init__(self):
        super().__init__()
        self.now = self.peak = 0
        self.known = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        given = {storage._cdata for storage in storages((args, kwargs))}
        made = function(*args, **(kwargs or {}))
        for storage in storages(made):
            if storage._cdata not in given and storage._cdata not in self.known:
                self.see(storage)
        return made

    def see(self, storage):
        key, size = storage._cdata, storage.nbytes()
        self.known[key] = size
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self.forget, key)

    def forget(self, key):
        self.now -= self.known.pop(key, 0)


def peak(net, inputs):
    """Bytes of a run in eager mode."""
    with torch.no_grad(), Alive() as alive:
        net(*inputs)
    return alive.peak
