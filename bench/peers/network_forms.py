"""The networks of bench/peers/products.py, in their published shapes, written as layers (network_layers.py)."""

from network_layers import Network


def squeezenet():
    """SqueezeNet 1.1 (Iandola et al. 2016), as torchvision has it."""
    n = Network("squeezenet")

    def fire(x, squeeze, expand):
        s = n.conv(x, squeeze, 1, act="relu")
        return n.concat([n.conv(s, expand, 1, act="relu"), n.conv(s, expand, 3, act="relu")])

    x = n.pool(n.conv(n.image(3, 224, 224), 64, 3, 2, 0, act="relu"), "max", 3, 2)
    x = n.pool(fire(fire(x, 16, 64), 16, 64), "max", 3, 2)
    x = n.pool(fire(fire(x, 32, 128), 32, 128), "max", 3, 2)
    x = fire(fire(fire(fire(x, 48, 192), 48, 192), 64, 256), 64, 256)
    n.global_pool(n.conv(x, 1000, 1, act="relu"))
    return n


def shufflenet():
    """ShuffleNet with 4 groups (Zhang et al. 2017), as onnx's light model has it."""
    n = Network("shufflenet")
    x = n.pool(n.conv(n.image(3, 224, 224), 24, 3, 2, act="relu"), "max", 3, 2, 1)
    for out, repeats in ((272, 3), (544, 7), (1088, 3)):
        middle = out // 4
        for i in range(repeats + 1):
            into, stride = x.shape[0], 1 if i else 2
            y = n.conv(x, middle, 1, groups=4 if into > 24 else 1, act="relu")
            y = n.conv(n.shuffle(y, 4), middle, 3, stride, groups=middle)
            y = n.conv(y, out if i else out - into, 1, groups=4)
            if i:
                x = n.add(x, y, act="relu")
            else:
                x = n.act(n.concat([n.pool(x, "average", 3, 2, 1), y]), "relu")
    n.linear(n.global_pool(x), 1000)
    return n


def shufflenet_v2():
    """ShuffleNet v2 x1.0 (Ma et al. 2018), as torchvision has it."""
    n = Network("shufflenet_v2")
    x = n.pool(n.conv(n.image(3, 224, 224), 24, 3, 2, act="relu"), "max", 3, 2, 1)
    for out, repeats in ((116, 4), (232, 8), (464, 4)):
        half = out // 2
        for i in range(repeats):
            if i:
                one, two = n.channels(x, 0, half), n.channels(x, half, half)
            else:
                one = n.conv(n.conv(x, x.shape[0], 3, 2, groups=x.shape[0]), half, 1, act="relu")
                two = x
            two = n.conv(two, half, 1, act="relu")
            two = n.conv(n.conv(two, half, 3, 1 if i else 2, groups=half), half, 1, act="relu")
            x = n.shuffle(n.concat([one, two]), 2)
    n.linear(n.global_pool(n.conv(x, 1024, 1, act="relu")), 1000)
    return n


def mobilenet_v2():
    """MobileNet v2 (Sandler et al. 2018), as torchvision has it."""
    n = Network("mobilenet_v2")
    x = n.conv(n.image(3, 224, 224), 32, 3, 2, act="relu6")
    for expand, out, repeats, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                         (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(repeats):
            into, step = x.shape[0], stride if i == 0 else 1
            y = n.conv(x, into * expand, 1, act="relu6") if expand > 1 else x
            y = n.conv(n.conv(y, into * expand, 3, step, groups=into * expand, act="relu6"), out, 1)
            x = n.add(x, y) if step == 1 and into == out else y
    n.linear(n.global_pool(n.conv(x, 1280, 1, act="relu6")), 1000)
    return n


def resnet50():
    """ResNet-50 (He et al. 2015), the stride in the 3x3 as torchvision has it."""
    n = Network("resnet50")
    x = n.pool(n.conv(n.image(3, 224, 224), 64, 7, 2, act="relu"), "max", 3, 2, 1)
    for width, repeats in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(repeats):
            stride = 2 if i == 0 and width > 64 else 1
            y = n.conv(n.conv(x, width, 1, act="relu"), width, 3, stride, act="relu")
            y = n.conv(y, 4 * width, 1)
            x = n.add(y, x if i else n.conv(x, 4 * width, 1, stride), act="relu")
    n.linear(n.global_pool(x), 1000)
    return n


def small_image():
    """One of each kind of layer: for tests."""
    n = Network("small_image")
    x = n.pool(n.conv(n.image(3, 20, 20), 8, 3, 2, act="relu"), "max", 3, 2, 1)
    y = n.shuffle(n.conv(n.conv(x, 8, 3, groups=8), 8, 1, groups=2, act="relu6"), 2)
    x = n.add(x, y, act="relu")
    x = n.concat([n.channels(x, 0, 4), n.pool(x, "average", 3, 1, 1)])
    n.linear(n.global_pool(x), 10)
    return n


def attend(n, x, memory, heads, causal=False):
    """Multi-head attention with its projections and residual, normed after it."""
    width = x.shape[0]
    q, k, v = n.linear(x, width), n.linear(memory, width), n.linear(memory, width)
    return n.norm(n.add(x, n.linear(n.attention(q, k, v, heads, causal), width)))


def feed_forward(n, x, inner, act):
    return n.norm(n.add(x, n.linear(n.linear(x, inner, act=act), x.shape[0])))


def bert(layers=12, width=768, heads=12, inner=3072):
    """The encoder of BERT-base (Devlin et al. 2018), without embeddings and pooler."""
    n = Network("bert")
    x = n.rows(width, "source")
    for _ in range(layers):
        x = feed_forward(n, attend(n, x, x, heads), inner, "gelu")
    return n


def translator(layers=3, width=256, heads=4, inner=1024):
    """A small encoder and a decoder with cross attention (Vaswani et al. 2017), all rows of the target at once."""
    n = Network("translator")
    source = n.rows(width, "source")
    x = n.rows(width, "target")
    for _ in range(layers):
        source = feed_forward(n, attend(n, source, source, heads), inner, "relu")
    for _ in range(layers):
        x = attend(n, x, x, heads, causal=True)
        x = feed_forward(n, attend(n, x, source, heads), inner, "relu")
    return n


IMAGES = {"squeezenet": squeezenet, "shufflenet": shufflenet, "shufflenet_v2": shufflenet_v2,
          "mobilenet_v2": mobilenet_v2, "resnet50": resnet50}
