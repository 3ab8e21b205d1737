"""Runs ONNX models by ONNX Runtime, in a process of its own: one that dies of a model takes nothing else with it.

reference.py starts it. On stdin and stdout, pickled: ("open", (bytes of a model, whether as it stands)) or ("run",
{input: array}), and back (True, result) or (False, message). Imports nothing of this package: modules in this folder
have names that others have.
"""

import os
import pickle
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
EXACT = "session.x64quantprecision"  # no kernels that saturate sums of two products, as those of AVX2 do


def opened(data, as_it_stands):
    """(session, version of ONNX Runtime). as_it_stands: without kernels in the place of several nodes."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry(EXACT, "1")
    if as_it_stands:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return session, onnxruntime.__version__


def main():
    sys.path = [path for path in sys.path if os.path.abspath(path or ".") != HERE]
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    session = None
    while True:
        try:
            what, data = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            if what == "open":
                session, result = opened(*data)
            else:
                result = session.run(None, data)
            answer = True, result
        except Exception as why:  # not installed, or it does not take the model: it raises errors of its own
            answer = False, f"{type(why).__name__}: {why}"
        pickle.dump(answer, answers, pickle.HIGHEST_PROTOCOL)
        answers.flush()


if __name__ == "__main__":
    main()
