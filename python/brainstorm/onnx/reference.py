"""What an ONNX model gives: by ONNX Runtime where it is installed and takes the model, else by onnx.reference.

Must never: die with ONNX Runtime, which runs in a process of its own (runtime_process.py).
"""

import os
import pickle
import signal
import subprocess
import sys

import onnx

from .refused import Refused


class Stopped(Exception):
    """ONNX Runtime gave nothing: why."""


class Died(Stopped):
    """Its process ended of itself."""


class Declined(Stopped):
    """It refused a model, or what it was given."""


class Process:
    """ONNX Runtime, elsewhere."""

    def __init__(self):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "runtime_process.py")
        self.process = subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL)

    def ask(self, what, data):
        try:
            pickle.dump((what, data), self.process.stdin, pickle.HIGHEST_PROTOCOL)
            self.process.stdin.flush()
            good, result = pickle.load(self.process.stdout)
        except (BrokenPipeError, EOFError, pickle.UnpicklingError):
            raise Died(self.ended()) from None
        if not good:
            raise Declined(result)
        return result

    def ended(self):
        """How it ended."""
        self.close()
        status = self.process.returncode
        if status >= 0:
            return f"ended with status {status}"
        names = {s.value: s.name for s in signal.Signals}
        return f"died of signal {-status} ({names.get(-status, 'unknown')})"

    def close(self):
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                pipe.close()
            except BrokenPipeError:
                pass
        self.process.wait()


class Runtime:
    """The one process of all references, and the model that it has open. It starts when it is first needed, and again
    where it died."""

    def __init__(self):
        self.process = self.model = None

    def run(self, model, feeds, as_it_stands):
        """feeds: None only opens the model and gives the version."""
        try:
            if self.process is None:
                self.process = Process()
            if self.model is not model:
                self.model = None
                self.version, self.model = self.process.ask("open", (model, as_it_stands)), model
            return self.version if feeds is None else self.process.ask("run", feeds)
        except (OSError, Died) as why:
            self.process = self.model = None
            raise Died(str(why)) from None


RUNTIME = Runtime()


class Reference:
    """What the model gives: `name` says by which. ready: the model with ops of a newer set, of which onnx.reference is
    truer than of old ones."""

    def __init__(self, model, ready):
        self.ready, self.name, self.run, self.patient = ready, None, None, False
        try:
            # Kernels of 8 bits in the place of nodes that quantise saturate on some processors.
            self.as_it_stands = any(node.op_type == "DequantizeLinear" for node in model.graph.node)
            self.data = model.SerializeToString()
            version = RUNTIME.run(self.data, None, self.as_it_stands)
            self.name, self.run = f"onnxruntime {version}", self._runtime
        except Exception:  # it is not installed, does not take the model, or dies of it; protobuf's own errors
            self.fall_back()

    def _runtime(self, feeds):
        """Some kernels refuse a model only when it runs, or die of it: onnx.reference takes its place, unless we are
        patient, as others may be taken. Then it raises Stopped."""
        try:
            return RUNTIME.run(self.data, feeds, self.as_it_stands)
        except Stopped:
            if self.patient:
                raise
            self.fall_back()
            return self.run(feeds)

    def fall_back(self):
        """From now on by onnx.reference."""
        from onnx.reference import ReferenceEvaluator
        from .markers_reference import OPS
        try:
            evaluator = ReferenceEvaluator(self.ready, new_ops=OPS)
        except Exception as why:
            raise Refused(f"the model has no reference to compare with: {why}") from None
        self.name, self.run = f"onnx.reference {onnx.__version__}", lambda feeds: evaluator.run(None, feeds)
