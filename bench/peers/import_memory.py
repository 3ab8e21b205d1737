"""How much memory a peer takes to open a file and run it: in a process of its own.

    python import_memory.py PEER FILE INPUTS.npz OUTPUT...        bytes; nothing where the system does not tell

The highest resident size while it is opened and run, less what was resident before: libraries and inputs are there by
then. Relies on: Linux (/proc/self).
"""

import os
import subprocess
import sys
import tempfile

import numpy as np

from network_memory import status


def main():
    peer, path, inputs, *outputs = sys.argv[1:]
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:0] = [os.path.join(here, os.pardir), os.path.join(here, os.pardir, os.pardir, "python")]
    import import_runs
    with np.load(inputs) as file:
        feeds = {name: file[name] for name in file.files}
    if peer == "ncnn":
        import ncnn  # noqa: F401: loaded before
        from brainstorm.ncnn import compare  # noqa: F401
        make = lambda: import_runs.Ncnn(path, feeds, outputs)
    else:
        import network_onnx  # noqa: F401
        make = lambda: import_runs.Onnx(path, feeds)
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")  # the highest size so far is forgotten
    before = status("VmRSS")
    make().run(3)
    print(status("VmHWM") - before)


def peak(peer, path, feeds, outputs):
    with tempfile.TemporaryDirectory() as folder:
        inputs = os.path.join(folder, "inputs.npz")
        np.savez(inputs, **feeds)
        done = subprocess.run([sys.executable, __file__, peer, path, inputs, *outputs], capture_output=True, text=True)
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip() else None


if __name__ == "__main__":
    main()
