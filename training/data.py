"""Training pairs: photographs -> luma -> (high resolution, low resolution) stores on disk.

A store is three files: `hr.u16` (luma code times 256, so nothing is lost to rounding), `lr.u8`
(what a decoder would hand us) and `index.npy`, one row per picture. Both planes are flat and
memory-mapped: a store is larger than it need be in RAM, and two trainings can share it.

    python3 data.py --photos DIR [--photos DIR] --store OUT            # the clean store
"""

import argparse
import glob
import os

import numpy as np
from PIL import Image

SCALE = 2
# Shrinking the photographs a little hides what is left of their own compression, and gives
# the net the same structures at several sizes.
SHRINKS = (1.0, 0.9, 0.8, 0.7, 0.6)

# ---------------------------------------------------------------- luma


def luma_of_rgb(rgb):
    """BT.601 luma code (16..235) as unrounded float32."""
    rgb = np.asarray(rgb, np.float32)
    return 16.0 + (rgb[..., 0] * 65.481 + rgb[..., 1] * 128.553 + rgb[..., 2] * 24.966) / 255.0


def load_luma(path):
    """A picture's luma. A grey picture is taken as it is, as the papers do."""
    image = Image.open(path)
    if image.mode in ("L", "I", "I;16", "1"):
        return np.asarray(image.convert("L"), np.float32)
    return luma_of_rgb(image.convert("RGB"))


def list_pictures(folder):
    names = []
    for suffix in ("webp", "png", "bmp"):
        names += glob.glob(os.path.join(folder, "*." + suffix))
    return sorted(names)


# ---------------------------------------------------------------- resizing


def cubic_kernel(x):
    x = np.abs(x)
    near = 1.5 * x**3 - 2.5 * x**2 + 1.0
    far = -0.5 * x**3 + 2.5 * x**2 - 4.0 * x + 2.0
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def triangle_kernel(x):
    return np.maximum(0.0, 1.0 - np.abs(x))


def box_kernel(x):
    return ((x >= -0.5) & (x < 0.5)).astype(np.float64)


KERNELS = {"bicubic": (cubic_kernel, 4), "bilinear": (triangle_kernel, 2), "area": (box_kernel, 1)}


def resize_taps(size_in, size_out, kernel="bicubic", edge="mirror"):
    """Indices and weights, one row per output sample, as MATLAB's imresize makes them:
    pixel centres aligned, kernel widened when shrinking so that it filters out aliases."""
    function, support = KERNELS[kernel]
    scale = size_out / size_in
    widen = max(1.0, 1.0 / scale)
    centre = (np.arange(size_out) + 0.5) / scale - 0.5
    count = int(np.ceil(support * widen)) + 2
    first = np.floor(centre - support * widen / 2).astype(int)
    index = first[:, None] + np.arange(count)
    weight = function((centre[:, None] - index) / widen)
    weight /= weight.sum(1, keepdims=True)
    if edge == "mirror":
        index = index % (2 * size_in)
        index = np.where(index < size_in, index, 2 * size_in - 1 - index)
    else:
        index = np.clip(index, 0, size_in - 1)
    used = np.abs(weight).max(0) > 0
    return index[:, used], weight[:, used].astype(np.float32)


def resize_axis0(plane, size_out, kernel, edge):
    index, weight = resize_taps(plane.shape[0], size_out, kernel, edge)
    out = np.zeros((size_out,) + plane.shape[1:], np.float32)
    for tap in range(index.shape[1]):
        out += plane[index[:, tap]] * weight[:, tap, None]
    return out


def resize(plane, height, width, kernel="bicubic", edge="mirror"):
    plane = resize_axis0(np.asarray(plane, np.float32), height, kernel, edge)
    return np.ascontiguousarray(resize_axis0(np.ascontiguousarray(plane.T), width, kernel, edge).T)


def crop_to_multiple(plane, multiple):
    height, width = plane.shape[0] // multiple * multiple, plane.shape[1] // multiple * multiple
    return plane[:height, :width]


def to_code(plane):
    """Rounded to an 8-bit code."""
    return np.clip(np.rint(plane), 0, 255).astype(np.uint8)


def downscale(plane, kernel="bicubic"):
    return resize(plane, plane.shape[0] // SCALE, plane.shape[1] // SCALE, kernel)


def bicubic_upscale(low):
    """What every route starts from: a = -0.5, half-pixel centres, edges repeated."""
    return resize(low, low.shape[0] * SCALE, low.shape[1] * SCALE, "bicubic", "replicate")


# ---------------------------------------------------------------- stores


class StoreWriter:
    def __init__(self, folder):
        os.makedirs(folder, exist_ok=True)
        self.folder = folder
        self.high = open(os.path.join(folder, "hr.u16"), "wb")
        self.low = open(os.path.join(folder, "lr.u8"), "wb")
        self.rows = []
        self.offset = 0

    def add(self, high, low):
        """high: float luma code, low: uint8, exactly half of it each way."""
        height, width = low.shape
        assert high.shape == (height * SCALE, width * SCALE)
        error = float(np.mean((bicubic_upscale(low) - high) ** 2))
        np.rint(np.clip(high, 0, 255) * 256).astype(np.uint16).tofile(self.high)
        low.astype(np.uint8).tofile(self.low)
        self.rows.append((self.offset, height, width, error))
        self.offset += height * width

    def close(self):
        self.high.close()
        self.low.close()
        np.save(os.path.join(self.folder, "index.npy"), np.array(self.rows, np.float64))


def is_store(folder):
    return os.path.exists(os.path.join(folder, "index.npy"))


def open_pairs(folder):
    """The index of a store and its (high as uint16, low as uint8) pairs."""
    rows = np.load(os.path.join(folder, "index.npy"))
    high = np.memmap(os.path.join(folder, "hr.u16"), np.uint16, "r")
    low = np.memmap(os.path.join(folder, "lr.u8"), np.uint8, "r")
    pairs = []
    for offset, height, width in rows[:, :3].astype(np.int64):
        count = height * width
        one_high = high[4 * offset : 4 * (offset + count)].reshape(2 * height, 2 * width)
        pairs.append((one_high, low[offset : offset + count].reshape(height, width)))
    return rows, pairs


class Store:
    """Random training patches out of one store."""

    def __init__(self, folder):
        rows, self.pairs = open_pairs(folder)
        area = rows[:, 1] * rows[:, 2]
        self.chance = np.cumsum(area / area.sum())
        # A picture's PSNR is a logarithm: dividing a patch's squared error by its picture's
        # makes the mean loss follow the mean PSNR instead of the few hardest pictures.
        weight = np.clip(np.median(rows[:, 3]) / np.maximum(rows[:, 3], 1e-3), 0.25, 4.0)
        self.weight = weight / np.average(weight, weights=area)

    def patch(self, random, size):
        number = min(int(np.searchsorted(self.chance, random.random())), len(self.pairs) - 1)
        high, low = self.pairs[number]
        top = int(random.integers(0, low.shape[0] - size + 1))
        left = int(random.integers(0, low.shape[1] - size + 1))
        low = low[top : top + size, left : left + size]
        high = high[2 * top : 2 * (top + size), 2 * left : 2 * (left + size)]
        turn = int(random.integers(0, 8))
        if turn & 1:
            low, high = low[::-1], high[::-1]
        if turn & 2:
            low, high = low[:, ::-1], high[:, ::-1]
        if turn & 4:
            low, high = low.T, high.T
        return high, low, self.weight[number]


class Mixture:
    """Batches out of several stores, each with its share."""

    def __init__(self, shares, seed=0):
        self.stores = [Store(folder) for folder, _ in shares]
        part = np.array([share for _, share in shares], np.float64)
        self.chance = np.cumsum(part / part.sum())
        self.seed = seed
        self.random = np.random.default_rng(seed)

    def batch_of_step(self, step, count, size):
        """The batch that follows from the seed and the number of the step alone, whatever was drawn before."""
        self.random = np.random.default_rng((self.seed, step))
        return self.batch(count, size)

    def batch(self, count, size):
        """low and high in [0,1] as NCHW float32, and one weight per patch."""
        low = np.empty((count, 1, size, size), np.float32)
        high = np.empty((count, 1, 2 * size, 2 * size), np.float32)
        weight = np.empty(count, np.float32)
        for i in range(count):
            pick = min(int(np.searchsorted(self.chance, self.random.random())), len(self.stores) - 1)
            high[i, 0], low[i, 0], weight[i] = self.stores[pick].patch(self.random, size)
        low *= 1.0 / 255.0
        high *= 1.0 / (255.0 * 256.0)
        return low, high, weight


def shrunk_versions(luma):
    for shrink in SHRINKS:
        height, width = (int(round(side * shrink)) for side in luma.shape)
        small = luma if shrink == 1.0 else np.clip(resize(luma, height, width), 0, 255)
        yield crop_to_multiple(small, SCALE)


def build_clean_store(folders, store):
    writer = StoreWriter(store)
    for folder in folders:
        for path in list_pictures(folder):
            for high in shrunk_versions(load_luma(path)):
                writer.add(high, to_code(downscale(high)))
    writer.close()
    return len(writer.rows)


def main():
    parser = argparse.ArgumentParser(description="build the clean store")
    parser.add_argument("--photos", action="append", required=True)
    parser.add_argument("--store", required=True)
    args = parser.parse_args()
    print(build_clean_store(args.photos, args.store), "pairs")


if __name__ == "__main__":
    main()
