"""A product of product_cases.py by OpenBLAS: the program bench/blas, which see. Without a bias: we and others add one.

The library is that of the package scipy-openblas32 (pip), else Debian's. OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE are
both unset for it: it has the kernels and block sizes that it chooses for this processor.
"""

import ctypes.util
import glob
import os
import subprocess

import numpy as np

import luma


def library():
    """Its path, or None."""
    try:
        import scipy_openblas32
        found = glob.glob(os.path.join(scipy_openblas32.get_lib_dir(), "lib*openblas*.so*"))
        if found:
            return found[0]
    except ImportError:
        pass
    return ctypes.util.find_library("openblas")


class Blas:
    """One process for all cases."""
    name = "openblas"

    def __init__(self):
        free = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
        self.process = subprocess.Popen([luma.program(os.path.join("bench", "blas")), library()],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env={**free, "OPENBLAS_NUM_THREADS": "1"})
        self.kernel = self.ask("kernel")

    def ask(self, line, data=b""):
        try:
            self.process.stdin.write(line.encode() + b"\n" + data)
            self.process.stdin.flush()
        except BrokenPipeError:
            raise SystemExit("blas has stopped: it said why above") from None
        answer = self.process.stdout.readline().decode().strip()
        if not answer:
            raise SystemExit(f"blas gave no answer to '{line}': it said why above")
        return answer

    def open(self, case, inputs, weights):
        """Those without an activation only."""
        m, k, n, _ = case.arguments
        data = weights["op.weight"].tobytes() + b"".join(np.ascontiguousarray(x).tobytes() for x in inputs)
        self.ask(f"open {case.count} {m} {k} {n}", data)
        self.bias, self.shape = weights["op.bias"], (m, n)
        return self

    def run(self, times):
        return float(self.ask(f"run {times}"))

    def result(self, index):
        self.process.stdin.write(f"result {index}\n".encode())
        self.process.stdin.flush()
        data = self.process.stdout.read(4 * int(np.prod(self.shape)))
        return np.frombuffer(data, np.float32).reshape(self.shape) + self.bias

    def end(self):
        self.process.stdin.close()
        self.process.wait()
