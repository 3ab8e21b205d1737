"""Whole networks of images as ncnn param and bin files, written directly; one thread, f32, packing and Winograd as ncnn
has them."""

import time

import ncnn
import numpy as np

ACT = {"": "", "relu": " 9=1", "relu6": " 9=3 -23310=2,0.0,6.0"}


class Writer:
    """A blob that several layers read goes through a Split."""

    def __init__(self, network, stem):
        self.network, self.lines, self.data, self.cut = network, [], [], set()
        users = {}
        for layer in network.layers:
            for x in layer.inputs:
                users.setdefault(x.number, []).append(layer)
        self.users, self.left = users, {}
        for layer in network.layers:
            if layer.op == "input":
                self.line("Input", layer.name, [], layer)
            elif layer.op == "channels":
                self.channels(layer)
            else:
                getattr(self, layer.op)(layer, [self.blob(x) for x in layer.inputs])
        blobs = {name for line in self.lines for name in self.names(line)}
        with open(stem + ".param", "w") as f:
            f.write("7767517\n" + f"{len(self.lines)} {len(blobs)}\n" + "\n".join(self.lines) + "\n")
        with open(stem + ".bin", "wb") as f:
            f.write(b"".join(self.data))

    @staticmethod
    def names(line):
        words = line.split()
        return words[4:4 + int(words[2]) + int(words[3])]

    def readers(self, number):
        """Those that read its blob: both halves that a Slice makes count once."""
        cuts = [u for u in self.users.get(number, []) if u.op == "channels"]
        return len(self.users.get(number, [])) - max(0, len(cuts) - 1)

    def line(self, kind, name, inputs, layer, settings=""):
        """The layer, and a Split behind it."""
        outputs = [name]
        self.lines.append(f"{kind} {name} {len(inputs)} 1 " + " ".join([*inputs, *outputs]) + settings)
        self.split(layer, name)

    def split(self, layer, name):
        n = self.readers(layer.number)
        self.left[layer.number] = [name] if n < 2 else [f"{name}_{i}" for i in range(n)]
        if n > 1:
            self.lines.append(f"Split split_{name} 1 {n} {name} " + " ".join(self.left[layer.number]))

    def blob(self, x):
        return self.left[x.number].pop()

    def weights(self, layer):
        w, b = (self.network.weights[f"{layer.name}.{s}"] for s in ("weight", "bias"))
        self.data.append(b"\0\0\0\0" + w.astype("<f4").tobytes() + b.astype("<f4").tobytes())
        return w.size

    def conv(self, layer, x):
        size = self.weights(layer)
        settings = (f" 0={layer.shape[0]} 1={layer.kernel} 3={layer.stride} 4={layer.pad} 5=1 6={size}"
                    + (f" 7={layer.groups}" if layer.groups > 1 else "") + ACT[layer.act])
        self.line("ConvolutionDepthWise" if layer.groups > 1 else "Convolution", layer.name, x, layer, settings)

    def linear(self, layer, x):
        size = self.weights(layer)
        self.line("InnerProduct", layer.name, x, layer, f" 0={layer.shape[0]} 1=1 2={size}" + ACT[layer.act])

    def pool(self, layer, x):
        kind = 0 if layer.kind == "max" else 1
        self.line("Pooling", layer.name, x, layer,
                  f" 0={kind} 1={layer.kernel} 2={layer.stride} 3={layer.pad} 5=1 6={kind}")

    def global_pool(self, layer, x):
        self.line("Pooling", layer.name, x, layer, " 0=1 4=1")

    def concat(self, layer, parts):
        self.line("Concat", layer.name, parts, layer, " 0=0")

    def channels(self, layer):
        """Both halves at once, when the first is met."""
        x = layer.inputs[0]
        if x.number in self.cut:
            return
        self.cut.add(x.number)
        parts = sorted((u for u in self.users[x.number] if u.op == "channels"), key=lambda u: u.start)
        counts = [p.shape[0] for p in parts]
        if parts[0].start == 0 and sum(counts) < x.shape[0]:  # what nobody reads
            counts.append(x.shape[0] - sum(counts))
        names = [p.name for p in parts] + [f"{layer.name}_rest"] * (len(counts) - len(parts))
        self.lines.append(f"Slice {layer.name}_cut 1 {len(names)} {self.blob(x)} " + " ".join(names)
                          + f" -23300={len(counts)}," + ",".join(map(str, counts)) + " 1=0")
        for p in parts:
            self.split(p, p.name)

    def shuffle(self, layer, x):
        self.line("ShuffleChannel", layer.name, x, layer, f" 0={layer.groups}")

    def add(self, layer, x):
        if not layer.act:
            return self.line("BinaryOp", layer.name, x, layer, " 0=0")
        self.lines.append(f"BinaryOp {layer.name}_sum 2 1 {x[0]} {x[1]} {layer.name}_sum 0=0")
        return self.line("ReLU", layer.name, [f"{layer.name}_sum"], layer)

    def act(self, layer, x):
        self.line("ReLU", layer.name, x, layer)


def opened(stem):
    net = ncnn.Net()
    options = net.opt
    options.num_threads = 1
    options.use_vulkan_compute = False
    options.use_fp16_packed = options.use_fp16_storage = options.use_fp16_arithmetic = False
    options.use_bf16_storage = False
    if net.load_param(stem + ".param") or net.load_model(stem + ".bin"):
        raise SystemExit("ncnn does not read what was written for it")
    return net


class NcnnNetwork:
    name = "ncnn"

    def __init__(self, network, stem):
        Writer(network, stem)
        self.network, self.net = network, opened(stem)

    def bind(self, inputs, _):
        self.ports = [(layer.name, ncnn.Mat(inputs[layer.name]).clone()) for layer in self.network.inputs]

    def run(self, times):
        since = time.process_time()
        for _ in range(times):
            extractor = self.net.create_extractor()
            for name, x in self.ports:
                extractor.input(name, x)
            status, self.y = extractor.extract(self.network.output.name)
            if status:
                raise SystemExit("ncnn does not run what was written for it")
        return time.process_time() - since

    def result(self):
        return np.array(self.y)
