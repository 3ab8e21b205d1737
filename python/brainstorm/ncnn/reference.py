"""python3 -m brainstorm.ncnn.reference: runs a network by ncnn, as a process of its own. What ncnn meets in a strange
network can end a process; then only this one ends.

Reads the words of the job as JSON from the standard input, inputs from IN.npz; writes OUT.npz. compare.py starts it.
"""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np

FAST = ("use_winograd_convolution", "use_sgemm_convolution", "use_packing_layout")  # and not quite as exact


def ncnn_net(param, bin, threads=1, plain=False):
    """Loaded, with all arithmetic in f32. plain: by its plain loops, whose rounding is less."""
    import ncnn

    net = ncnn.Net()
    net.opt.num_threads = threads
    for option in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage",
                   "use_vulkan_compute", *(FAST if plain else ())):
        if hasattr(net.opt, option):
            setattr(net.opt, option, False)
    if net.load_param(param) != 0 or net.load_model(bin) != 0:
        raise ValueError("ncnn cannot load it")
    return net


def ncnn_run(net, inputs, outputs):
    import ncnn

    extractor = net.create_extractor()
    for name, x in inputs.items():  # a clone: layers work in place
        extractor.input(name, ncnn.Mat(np.ascontiguousarray(x)).clone())
    made = {}
    for name in outputs:
        status, mat = extractor.extract(name)
        if status != 0:
            raise ValueError(f"ncnn cannot make {name!r}")
        made[name] = np.array(mat)
    return made


def _child():
    """The job in this process. Arrays are numbered: names of blobs may be any."""
    job = json.load(sys.stdin)
    try:
        net = ncnn_net(job["param"], job["bin"], plain=True)
        made = {}
        with np.load(job["in"]) as arrays:
            for run in range(job["runs"]):
                inputs = {name: arrays[f"{run}.{i}"] for i, name in enumerate(job["inputs"])}
                for i, array in enumerate(ncnn_run(net, inputs, job["outputs"]).values()):
                    made[f"{run}.{i}"] = array
    except ValueError as why:
        print(why, file=sys.stderr)
        return 1
    np.savez(job["out"], **made)
    return 0


def results(param, bin, feeds, outputs):
    """[{output: array}] for feeds [{input: array}], by ncnn's plain loops in another process. Fails with what ncnn
    says, or how it ended."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "in.npz"), os.path.join(folder, "out.npz")
        np.savez(source, **{f"{run}.{i}": x for run, feed in enumerate(feeds) for i, x in enumerate(feed.values())})
        job = {"param": os.path.abspath(param), "bin": os.path.abspath(bin), "in": source, "out": target,
               "runs": len(feeds), "inputs": list(feeds[0]), "outputs": list(outputs)}
        package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
        done = subprocess.run([sys.executable, "-m", "brainstorm.ncnn.reference"], input=json.dumps(job), text=True,
                              capture_output=True, errors="replace", env={**os.environ, "PYTHONPATH": path})
        said = (done.stderr.strip().splitlines() or [""])[-1]
        if done.returncode < 0:
            raise ValueError(f"ncnn ends by signal {-done.returncode} with this network ({said or 'without a word'})")
        if done.returncode:
            raise ValueError(said or f"ncnn ends with {done.returncode}")
        with np.load(target) as made:
            return [{name: made[f"{run}.{i}"] for i, name in enumerate(outputs)} for run in range(len(feeds))]


if __name__ == "__main__":
    sys.exit(_child())
