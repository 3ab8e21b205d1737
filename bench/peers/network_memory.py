"""How much memory a peer takes to open a network of images and run it: in a process of its own.

    python network_memory.py PEER NETWORK FILE-STEM        bytes; nothing where the system does not tell

The highest resident size while it is opened and run, less what was resident before: libraries and the network's
description are there by then. Relies on: Linux (/proc/self), files that a peer's module has written.
"""

import subprocess
import sys


def status(key):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(key + ":"))


def opener(peer, network, stem):
    """A function that opens and returns one that runs."""
    inputs = {layer.name: network.noise.standard_normal(layer.shape).astype("float32") for layer in network.inputs}
    if peer == "onnxruntime":
        from network_onnx import session
        return lambda: (lambda s: lambda: s.run(None, {k: x[None] for k, x in inputs.items()}))(session(stem + ".onnx"))
    if peer == "ncnn":
        import ncnn
        from network_ncnn import opened
        mats = {k: ncnn.Mat(x).clone() for k, x in inputs.items()}

        def run(net):
            extractor = net.create_extractor()
            for name, mat in mats.items():
                extractor.input(name, mat)
            extractor.extract(network.output.name)
        return lambda: (lambda net: lambda: run(net))(opened(stem))
    from network_torch import TorchNetwork

    def opened_torch():
        made = TorchNetwork(network)  # copies the weights
        made.bind(inputs, {})
        return lambda: made.run(1)
    return opened_torch


def main():
    import network_forms

    peer, name, stem = sys.argv[1:]
    network = {**network_forms.IMAGES, "small_image": network_forms.small_image}[name]()
    make = opener(peer, network, stem)
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")  # the highest size so far is forgotten
    before = status("VmRSS")
    run = make()
    for _ in range(3):
        run()
    print(status("VmHWM") - before)


def peak(peer, network, stem):
    done = subprocess.run([sys.executable, __file__, peer, network.name, stem], capture_output=True, text=True)
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip() else None


if __name__ == "__main__":
    main()
