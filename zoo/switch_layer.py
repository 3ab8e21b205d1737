"""switch_layer.py - one sparse layer of Switch-base with 64 experts and 64 tokens beside PyTorch's loop over experts.

    python zoo/switch_layer.py [EXPERTS [TOKENS]]

One thread, by turns in one process. The limit beside it is that of memory: bytes of the experts that tokens chose, by
what a copy moves here. Also tells what plans of the whole network take, of 8 to 256 experts. Needs what equal.py does.
"""

import os
import statistics
import sys
import tempfile
import time

import brainstorm
import equal
import mixtures
import numpy as np
import torch


def bandwidth():
    """Bytes a second that are read: the best of some sums of 256 MB."""
    block = np.ones(1 << 26, np.float32)
    best = 0.0
    for _ in range(4):
        start = time.perf_counter()
        block.max()
        best = max(best, block.nbytes / (time.perf_counter() - start))
    return best


def timed(run):
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


def layer(experts, tokens):
    sizes = mixtures.loaded("switch", "setup").Variant(experts, tokens=tokens, batch=1)
    torch.manual_seed(1)
    plain = mixtures.loaded("switch", "plain").Sparse(sizes).eval()
    net = mixtures.loaded("switch", "dynamic").Sparse(sizes).eval()
    state = plain.state_dict()
    net.load_state_dict({name: state[name.replace(".paths.", ".")] for name in net.state_dict()}, assign=True)
    x = torch.randn(1, tokens, sizes.width)
    with torch.no_grad():
        plain.router.weight.mul_(30)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        path = os.path.join(folder, "layer")
        equal.exported(net, [x], f"{path}.onnx")
        equal.imported(f"{path}.onnx", f"{path}.gguf")
        os.remove(f"{path}.onnx")
        model = brainstorm.open(f"{path}.gguf")
        session = model.plan().session()
        given, wanted = equal.fed(model, [x]), plain(x)
        made = session.run(given)["y"]
        times = [(timed(lambda: plain(x)), timed(lambda: session.run(given))) for _ in range(12)][2:]
        used = int((session.decision("experts").counts > 0).sum())
    theirs, ours = (statistics.median(of) for of in zip(*times))
    weights = used * 2 * sizes.width * sizes.hidden * 4
    print(f"{experts} experts, {tokens} tokens on {used} of them: loop {theirs:.1f} ms, ours {ours:.1f} ms, "
          f"{statistics.median(a / b for a, b in times):.2f}x; memory alone {weights / bandwidth() * 1e3:.1f} ms; "
          f"{np.abs(made.reshape(wanted.shape) - wanted.numpy()).max():.2g} apart")


def whole():
    """Bytes of weights of Switch-base, without making them."""
    for name, sizes in mixtures.loaded("switch", "setup").VARIANTS.items():
        if name.isdigit():
            with torch.device("meta"):
                net = mixtures.loaded("switch", "plain").Switch(sizes)
            every = sum(p.numel() * 4 for p in net.parameters())
            expert = 2 * sizes.width * sizes.hidden * 4
            print(f"switch-base-{name}: {every / 2**30:.1f} GiB, of which {sizes.experts * sizes.layers} experts of "
                  f"{expert / 2**20:.0f} MiB stream")


if __name__ == "__main__":
    torch.set_num_threads(1)
    layer(*(int(word) for word in (sys.argv[1:] + ["64", "64"][len(sys.argv) - 1:])))
    whole()
