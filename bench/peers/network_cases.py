"""Whole networks in turns: an encoder, an encoder with a decoder, networks of images.

A family is a generator of rows, as products.py prints them. Networks of rows are built once for all lengths, by
everyone. Owns: which lengths, who runs them. Relies on: network_forms.py, and a module for each contender.
"""

import os

import numpy as np

import network_forms
from network_layers import lengths_flops
from turns import in_turns, ratios, relative_error

LENGTHS = (8, 32, 64, 128)
RAGGED = [8, 16, 24, 32, 48, 64, 96, 128]


class Singly:
    """Sequences one after the other by someone who was made for one."""

    def __init__(self, runner, network, inputs, lengths):
        self.runner, self.name, self.bound = runner, runner.name, []
        for i in range(len(next(iter(lengths.values())))):
            alone = {d: [n[i]] for d, n in lengths.items()}
            cut = {layer.name: np.split(inputs[layer.name], np.cumsum(lengths[layer.domain])[:-1])[i]
                   for layer in network.inputs}
            self.bound.append((cut, alone))

    def run(self, times):
        seconds = 0
        for _ in range(times):
            for cut, alone in self.bound:
                self.runner.bind(cut, alone)
                seconds += self.runner.run(1)
        return seconds


class Fastest:
    """The faster of two forms of one peer, by a trial each time something is bound."""

    def __init__(self, forms):
        self.forms, self.name, self.best = forms, "onnxruntime", None

    def bind(self, inputs, lengths):
        if self.best is None:
            for form in self.forms:
                form.bind(inputs, lengths)
                form.run(1)
            self.best = min(self.forms, key=lambda form: min(form.run(1) for _ in range(3)))
        self.best.bind(inputs, lengths)

    def run(self, times):
        return self.best.run(times)

    def result(self):
        return self.best.result()

    def forget(self):
        self.best = None


def truth_of(network, peers):
    """A function of inputs and lengths, in float64."""
    if "torch" in peers:
        import torch
        from network_torch import TorchNetwork
        exact = TorchNetwork(network, torch.float64)

        def by_torch(inputs, lengths):
            exact.bind(inputs, lengths)
            exact.run(1)
            return exact.result()
        return by_torch
    from network_numpy import definition
    return lambda inputs, lengths: definition(network, inputs, lengths)


def row_peers(network, peers, folder, masked):
    """Those that run networks of rows."""
    made = []
    if "onnxruntime" in peers:
        from network_onnx import OnnxNetwork
        path = os.path.join(folder, "network.onnx")
        made.append(Fastest([OnnxNetwork(network, path, form, masked) for form in ("Attention", "MultiHeadAttention")]))
    if "torch" in peers:
        from network_torch import TorchNetwork
        made.append(TorchNetwork(network))
    return made


class Rows:
    """A network of rows, open on our side."""

    def __init__(self, run, network, most):
        self.run, self.network, self.noise = run, network, np.random.default_rng(2)
        self.arenas, self.beside = run.networks().open(network, most, run.tier, run.file("network.gguf"))
        self.truth = truth_of(network, run.peers)

    def inputs(self, lengths):
        return {layer.name: self.noise.standard_normal((sum(lengths[layer.domain]), *layer.shape)).astype(np.float32)
                for layer in self.network.inputs}

    def row(self, name, runners, inputs, lengths):
        """runners: ours first, all bound."""
        run, network = self.run, self.network
        times = in_turns(runners, run.turns, run.seconds)
        flops = lengths_flops(network, lengths)
        row = {"case": name, "flops": flops, "arenas": self.arenas + self.beside,
               "limit": run.limits.us(flops, network.weight_bytes), "allocations": runners[0].allocations}
        ratios(row, runners, times)
        truth = self.truth(inputs, lengths)
        row["error"] = relative_error(runners[0].result(), truth)
        for r in runners[1:]:
            if r.name == "torch" and not isinstance(r, Singly):
                row["theirs"] = relative_error(r.result(), truth)
        row["note"] = "".join(f"onnxruntime by {r.best.fused}" for r in runners if isinstance(r, Fastest))
        return row

    def alone(self, name, peers, lengths):
        inputs = self.inputs(lengths)
        runners = [self.run.networks(), *peers]
        for r in runners:
            if isinstance(r, Fastest):
                r.forget()
            r.bind(inputs, lengths)
        return self.row(name, runners, inputs, lengths)

    def ragged(self, name, singles, padders, lengths):
        """Two rows: beside the padded batch, beside all of them one by one; and whether our bytes are the same."""
        inputs = self.inputs(lengths)
        ours = self.run.networks()
        for r in (ours, *padders):
            r.bind(inputs, lengths)
        row = self.row(name + ", theirs padded", [ours, *padders], inputs, lengths)
        together = ours.result()
        each = Singly(ours, self.network, inputs, lengths)
        parts = []
        for cut, alone in each.bound:
            ours.bind(cut, alone)
            ours.run(1)
            parts.append(ours.result())
        same = np.concatenate(parts).tobytes() == together.tobytes()
        row["same"] = same
        row["note"] += f"{'; ' if row['note'] else ''}each alone gives the same bytes: {'yes' if same else 'NO'}"
        yield row
        ours.bind(inputs, lengths)
        yield self.row(name + ", theirs one by one",
                       [ours, *(Singly(r, self.network, inputs, lengths) for r in singles)], inputs, lengths)


def bert(run):
    network = network_forms.bert(*((2, 32, 4, 64) if run.tiny else ()))
    lengths, ragged = ((3,), [2, 5, 3]) if run.tiny else (LENGTHS, RAGGED)
    rows = Rows(run, network, {"source": (max(*lengths, sum(ragged)), len(ragged))})
    singles = row_peers(network, run.peers, run.folder, masked=False)
    for n in lengths:
        yield rows.alone(f"bert, {n} tokens", singles, {"source": [n]})
    padders = row_peers(network, run.peers, run.folder, masked=True)
    yield from rows.ragged(f"bert, {len(ragged)} sequences, {sum(ragged)} tokens", singles, padders,
                           {"source": ragged})


FAMILIES = {"bert": bert}
