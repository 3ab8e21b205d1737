"""The nets of a super-resolution model file, as plain arrays, for the peers to build from.

Owns: reading weights out of GGUF, the order of layers, the bicubic base as a convolution. Relies on: numpy, gguf.
Must never: change a weight: what the peers run is what video_sr runs.
"""

import numpy as np

NETS = {"small": ("small", 3, "tail"), "exit1": ("large", 2, "tail0"), "exit2": ("large", 4, "tail1"),
        "large": ("large", 6, "tail2")}


def read_weights(path):
    """Every weight of a model file: docs/format.md, "Weights" and "Records"."""
    import gguf

    reader = gguf.GGUFReader(path)
    read = lambda key: reader.fields["brainstorm." + key].contents()
    dims, weights = list(read("weight.dims")), {}
    records = [reader.tensors[t].data.view(np.uint8).ravel() if t >= 0 else None for t in read("block.tensor")]
    columns = (read("weight." + k) for k in ("name", "block", "dtype", "rank", "offset"))
    for name, block, dtype, rank, offset in zip(*columns):
        shape = [dims.pop(0) for _ in range(rank)]
        kind = {0: np.float32, 3: np.int32, 4: np.float16}[dtype]
        data = records[block][offset : offset + int(np.prod(shape)) * np.dtype(kind).itemsize]
        weights[name] = data.view(kind).reshape(shape).copy()
    return weights


def layers(weights, net):
    """[(weight, bias, slopes or None)] from the input to the four channels that are shuffled."""
    prefix, bodies, tail = NETS[net]
    names = ["head", *(f"body{i}" for i in range(bodies)), tail]
    return [tuple(weights.get(f"{prefix}.{name}.{part}") for part in ("weight", "bias", "prelu")) for name in names]


def cubic(x):
    x = np.abs(x)
    near = 1.5 * x**3 - 2.5 * x**2 + 1
    far = -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def bicubic_filter():
    """x2 bicubic (a = -0.5) as a 5x5 convolution of an edge-replicated image: [4, 1, 5, 5] in pixel-shuffle order."""
    taps = np.stack([cubic(np.arange(5) - 2 - (phase + 0.5) / 2 + 0.5) for phase in range(2)])
    return np.einsum("ai,bj->abij", taps, taps).reshape(4, 1, 5, 5).astype(np.float32)


def operations(weights, net, width, height):
    """Floating point operations a frame by the direct method, the base left out."""
    return 2 * width * height * sum(w.size for w, _, _ in layers(weights, net))
