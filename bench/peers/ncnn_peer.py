"""The net as ncnn param and bin files, written directly; one thread, f32, packing and Winograd as ncnn has them."""

import ncnn
import numpy as np

from nets import bicubic_filter
from stopwatch import Stopwatch

CONVOLUTION = "Convolution {0} 1 1 {1} {2} 0={3} 1={4} 4={5} 5={6} 6={7}"


def write_ncnn(stem, layers):
    """A blob that two layers read goes through a Split. A convolution's weight has a type word before it: 0, f32."""
    lines, data = ["Input in 0 1 in", "Split split 1 2 in net0 base0"], []

    def convolution(name, source, weight, bias):
        out, _, kernel, _ = weight.shape
        pad = 0 if name == "base" else kernel // 2
        lines.append(CONVOLUTION.format(name, source, name, out, kernel, pad, int(bias is not None), weight.size))
        data.append(b"\0\0\0\0" + weight.astype("<f4").tobytes()
                    + (b"" if bias is None else bias.astype("<f4").tobytes()))

    y = "net0"
    for i, (weight, bias, slopes) in enumerate(layers):
        convolution(f"c{i}", y, weight, bias)
        y = f"c{i}"
        if slopes is not None:
            lines.append(f"PReLU p{i} 1 1 {y} p{i} 0={slopes.size}")
            data.append(slopes.astype("<f4").tobytes())
            y = f"p{i}"
    lines.append("Padding pad 1 1 base0 padded 0=2 1=2 2=2 3=2 4=1")
    convolution("base", "padded", bicubic_filter(), None)
    lines += [f"BinaryOp add 2 1 {y} base sum 0=0", "PixelShuffle shuffle 1 1 sum out 0=2 1=0"]
    blobs = len({name for line in lines for name in line.split()[4 : 4 + int(line.split()[2]) + int(line.split()[3])]})
    with open(stem + ".param", "w") as f:
        f.write("7767517\n" + f"{len(lines)} {blobs}\n" + "\n".join(lines) + "\n")
    with open(stem + ".bin", "wb") as f:
        f.write(b"".join(data))


WAYS = {"": {}, " F(4x4) only": {"use_winograd23_convolution": False, "use_winograd63_convolution": False}}


class NcnnPeer:
    def __init__(self, way, layers, stem):
        write_ncnn(stem, layers)
        self.net = ncnn.Net()
        options = self.net.opt
        options.num_threads = 1
        options.use_vulkan_compute = False
        options.use_fp16_packed = options.use_fp16_storage = options.use_fp16_arithmetic = False
        options.use_bf16_storage = False
        for name, value in WAYS[way].items():
            setattr(options, name, value)
        if self.net.load_param(stem + ".param") or self.net.load_model(stem + ".bin"):
            raise SystemExit("ncnn does not read what was written for it")
        self.name = f"ncnn {ncnn.__version__}{way}"

    def run(self, x):
        mat = ncnn.Mat(x[None]).clone()
        with Stopwatch() as watch:
            extractor = self.net.create_extractor()
            extractor.input("in", mat)
            _, y = extractor.extract("out")
        return watch, np.array(y)[0]
