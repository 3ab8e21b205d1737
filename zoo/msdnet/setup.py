"""MSDNet in its size, with thresholds by which given portions of images leave at each exit."""

from dataclasses import dataclass

import common
import derive
import torch

IMAGES = 20  # that thresholds are calibrated on
# The shares of images that left at each exit, as reported.
PORTIONS = {"never": (0, 0, 0, 0, 1), "fourth": (0, 0, 0, 0.4, 0.6), "third": (0, 0, 0.3, 0.3, 0.4),
            "spread": (0.1, 0.1, 0.2, 0.3, 0.3), "early": (0.6, 0.1, 0.1, 0.1, 0.1), "half": (0.5, 0.2, 0.2, 0.1, 0),
            "three": (0.5, 0.3, 0.2, 0, 0), "two": (0.5, 0.5, 0, 0, 0), "always": (1, 0, 0, 0, 0)}
NEVER = 2.0  # of a threshold: no share of a softmax is above 1


@dataclass(frozen=True)
class Variant:
    portions: tuple
    blocks: int = 5
    layers: int = 4
    growth: int = 16
    stem: int = 32
    classes: int = 1000
    factors: tuple = (1, 2, 4, 4)
    size: int = 224
    images: int = IMAGES

    rows = 1  # axis 0 is free in our file, up to so many

    @property
    def config(self):
        return dict(blocks=self.blocks, layers=self.layers, growth=self.growth, stem=self.stem, classes=self.classes,
                    factors=self.factors)

    def inputs(self, number=0):
        """An image: a slope of colours, of another contrast each, with some noise."""
        random = torch.Generator().manual_seed(100 + number)
        coarse = torch.randn(1, 3, 7, 7, generator=random) * (0.3 + 0.15 * (number % 10))
        image = torch.nn.functional.interpolate(coarse, size=(self.size, self.size), mode="bilinear")
        return [image + 0.1 * torch.randn(image.shape, generator=random)]

    def plain(self):
        net = common.seeded(common.loaded("msdnet", "plain").MSDNet(**self.config), 2, {"linear": 3.0})
        net.thresholds = [*thresholds(self, net), 0.0]
        return net

    def dynamic(self, plain=None):
        plain = plain or self.plain()
        made = common.loaded("msdnet", "dynamic").MSDNet(**self.config, thresholds=tuple(plain.thresholds[:-1]))
        return common.with_weights_of(made, plain)

    def onnx(self, net, path, folder):
        """Of one size there is one export, into which thresholds are written."""
        import onnx
        size = "_".join(str(n) for n in (*self.config.values(), self.size) if isinstance(n, int))
        model = derive.base(folder, f"msdnet.{size}", lambda: net, self.inputs(), self.rows)
        exits = [module for module in net.modules() if type(module).__name__ == "Exit"]  # the outermost one first
        onnx.save(derive.told(model, "Exit", "threshold", [module.threshold for module in exits[::-1]]), path)


SEEN = {}  # {sizes: confidences [images, exits]}


def confidences(variant, net):
    """Of all images at all exits."""
    key = tuple(sorted(variant.config.items())), variant.size, variant.images
    if key not in SEEN:
        found = []
        for number in range(variant.images):
            with torch.no_grad():
                x, of_image = net.first(*variant.inputs(number)), []
                for block, head in zip(net.blocks, net.heads):
                    x = block(x)
                    of_image.append(float(head(x).softmax(-1).max()))
            found.append(of_image)
        SEEN[key] = torch.tensor(found, dtype=torch.float64)
    return SEEN[key]


def thresholds(variant, net):
    """Exit by exit amid the images that are left, so that the wanted number leaves and no rounding decides."""
    seen, left, found = confidences(variant, net), torch.arange(variant.images), []
    for exit, portion in enumerate(variant.portions[:-1]):
        leave = min(round(portion * variant.images), len(left))
        ordered = left[seen[left, exit].argsort(descending=True)]
        if leave == 0:
            found.append(NEVER)
        elif leave == len(left):
            found.append(0.0)
        else:
            found.append(float(seen[ordered[leave - 1:leave + 1], exit].mean()))
        left = ordered[leave:]
    return found


VARIANTS = {name: Variant(portions) for name, portions in PORTIONS.items()}
VARIANTS["spread, half"] = Variant(PORTIONS["spread"], growth=8, stem=16)  # of the channels
VARIANTS["small"] = Variant((0.25, 0.25, 0.5), blocks=3, layers=2, growth=4, stem=4, classes=10, size=40,
                            factors=(1, 2), images=8)
