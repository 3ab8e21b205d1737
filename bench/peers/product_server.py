"""Our side of bench/peers/products.py: the program bench/products, which see."""

import os
import subprocess

import numpy as np

import luma


class Products:
    name = "brainstorm"

    def __init__(self, executable=None):
        command = [executable or luma.program(os.path.join("bench", "products"))]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, line, data=b""):
        try:
            self.process.stdin.write(line.encode() + b"\n" + data)
            self.process.stdin.flush()
        except BrokenPipeError:
            raise SystemExit("products has stopped: it said why above") from None
        answer = self.process.stdout.readline().decode().strip()
        if not answer:
            raise SystemExit(f"products gave no answer to '{line}': it said why above")
        return answer

    def open(self, case, tier, inputs, weights):
        """Bytes of its arenas."""
        self.ask(f"open {case.kind} {case.count} {tier} " + " ".join(str(a) for a in case.arguments))
        for name, weight in case.sent(weights).items():
            dims = " ".join(str(d) for d in weight.shape)
            self.ask(f"tensor {name} {dims}", np.ascontiguousarray(weight, np.float32).tobytes())
        for i, x in enumerate(inputs):
            self.ask(f"input {i}", case.laid_out(x).tobytes())
        self.shape, self.allocations = case, 0
        return int(self.ask("ready"))

    def run(self, times):
        seconds, allocations = self.ask(f"run {times}").split()
        self.allocations = -1 if int(allocations) < 0 else max(self.allocations, int(allocations))
        return float(seconds)

    def result(self, index=0):
        self.process.stdin.write(f"result {index}\n".encode())
        self.process.stdin.flush()
        count = int(np.prod(self.shape.result_shape))
        return self.shape.taken(np.frombuffer(self.process.stdout.read(4 * count), np.float32))

    def peak(self, tier):
        return float(self.ask(f"peak {tier}"))

    def bandwidth(self, verb, count):
        """GB/s of verb "read" or "copy"."""
        return float(self.ask(f"{verb} {count}"))

    def tier(self):
        return self.ask("tier")

    def close(self):
        self.ask("close")

    def end(self):
        self.process.stdin.close()
        self.process.wait()
