"""A convolution of product_cases.py by ncnn on one thread: inputs and outputs lie packed, as inside a network."""

import time

import ncnn
import numpy as np

from network_ncnn import ACT, opened


def packing(channels):
    return next(n for n in (16, 8, 4, 1) if channels % n == 0)


def packed(mat, to):
    out = ncnn.Mat()
    ncnn.convert_packing(mat, out, to)
    return out


class NcnnCase:
    name = "ncnn"

    def __init__(self, case, inputs, weights, stem):
        c, _, out, kernel, stride, groups, _ = case.arguments
        settings = (f" 0={out} 1={kernel} 3={stride} 4={kernel // 2} 5=1 6={weights['op.weight'].size}"
                    + (f" 7={groups}" if groups > 1 else "") + ACT[case.activation()])
        op = "ConvolutionDepthWise" if groups > 1 else "Convolution"
        lines, data = [], []
        for i in range(case.count):
            lines += [f"Input x{i} 0 1 x{i}", f"{op} y{i} 1 1 x{i} y{i}{settings}"]
            data.append(b"\0\0\0\0" + weights["op.weight"].tobytes() + weights["op.bias"].tobytes())
        with open(stem + ".param", "w") as f:
            f.write("7767517\n" + f"{len(lines)} {len(lines)}\n" + "\n".join(lines) + "\n")
        with open(stem + ".bin", "wb") as f:
            f.write(b"".join(data))
        self.net, self.case = opened(stem), case
        self.inputs = [packed(ncnn.Mat(x).clone(), packing(c)) for x in inputs]
        self.results = [None] * case.count

    def run(self, times):
        since = time.process_time()
        for _ in range(times):
            extractor = self.net.create_extractor()
            for i, x in enumerate(self.inputs):
                extractor.input(f"x{i}", x)
            for i in range(self.case.count):
                status, self.results[i] = extractor.extract(f"y{i}", 1)  # 1: packed, as it is made
                if status:
                    raise SystemExit("ncnn does not run what was written for it")
        return time.process_time() - since

    def result(self, index):
        return np.array(packed(self.results[index], 1)).reshape(self.case.result_shape)
