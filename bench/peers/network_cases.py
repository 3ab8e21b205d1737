"""Whole networks in turns: an encoder, an encoder with a decoder, networks of images.

A family is a generator of rows, as products.py prints them. Networks of rows are built once for all lengths, by
everyone. Owns: which lengths, who runs them. Relies on: network_forms.py, and a module for each contender.
"""

import os

import numpy as np

import network_forms
import network_memory
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


def translator(run):
    network = network_forms.translator(*((1, 32, 4, 64) if run.tiny else ()))
    alone = [(3, 2)] if run.tiny else [(8, 8), (32, 32), (64, 48)]
    ragged = {"source": [2, 5, 3], "target": [4, 1, 3]} if run.tiny else {"source": RAGGED, "target": RAGGED[::-1]}
    most = {d: (max(sum(n), *(pair[i] for pair in alone)), len(n)) for i, (d, n) in enumerate(ragged.items())}
    rows = Rows(run, network, most)
    singles = row_peers(network, run.peers, run.folder, masked=False)
    for source, target in alone:
        yield rows.alone(f"translator, {source} to {target} tokens", singles, {"source": [source], "target": [target]})
    padders = row_peers(network, run.peers, run.folder, masked=True)
    yield from rows.ragged(f"translator, {len(RAGGED) if not run.tiny else 3} pairs", singles, padders, ragged)


def image_peers(run, network, stem):
    made = []
    if "onnxruntime" in run.peers:
        from network_onnx import OnnxNetwork
        made.append(OnnxNetwork(network, stem + ".onnx"))
    if "ncnn" in run.peers:
        from network_ncnn import NcnnNetwork
        made.append(NcnnNetwork(network, stem))
    if "torch" in run.peers:
        from network_torch import TorchNetwork
        made.append(TorchNetwork(network))
    return made


def images(run):
    """Frames and results as peers have them: channels first."""
    forms = {"small_image": network_forms.small_image} if run.tiny else network_forms.IMAGES
    for name, form in forms.items():
        network, ours = form(), run.networks()
        arenas, beside = ours.open(network, {}, run.tier, run.file("network.gguf"))
        noise = np.random.default_rng(2)
        inputs = {layer.name: noise.standard_normal(layer.shape).astype(np.float32) for layer in network.inputs}
        runners = [ours, *image_peers(run, network, run.file(name))]
        for r in runners:
            r.bind(inputs, {})
        times = in_turns(runners, run.turns, run.seconds)
        flops, truth = lengths_flops(network, {}), truth_of(network, run.peers)(inputs, {})
        row = {"case": name, "flops": flops, "arenas": arenas + beside, "allocations": ours.allocations,
               "limit": run.limits.us(flops, network.weight_bytes), "error": relative_error(ours.result(), truth)}
        ratios(row, runners, times)
        for r in runners[1:]:
            row[f"{r.name} bytes"] = network_memory.peak(r.name, network, run.file(name))
            off = relative_error(r.result(), truth)
            row["theirs" if r.name == "torch" else f"{r.name} error"] = off
        told = [f"{r.name} {row[f'{r.name} bytes'] / 1e6:.1f} MB" for r in runners[1:] if row[f"{r.name} bytes"]]
        row["note"] = f"weights {network.weight_bytes / 1e6:.1f} MB" + "".join(f"; {t} at its peak" for t in told)
        yield row


FAMILIES = {"bert": bert, "translator": translator, "images": images}
