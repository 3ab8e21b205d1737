"""Exports a network of torchvision or transformers with random weights: python import_export.py NAME FILE.onnx

Weights are as the package initialises them, from a seed; batch norms have the statistics of random images, so that
values neither vanish nor grow, and a head of zeros is random too. Relies on: torch, onnxscript, and the package of
the network. Must never: fetch weights.
"""

import sys

import torch

IMAGE = (1, 3, 224, 224)


def settled(model, shape):
    """Batch norms see random images."""
    norms = [m for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = None  # the mean of all
    model.train()
    with torch.no_grad():
        for _ in range(2 if norms else 0):
            model(torch.randn(8, *shape[1:]))
        for parameter in model.parameters():
            if parameter.dim() == 2 and not parameter.any():
                parameter.normal_(0, parameter.shape[1] ** -0.5)
    return model.eval()


def distilbert():
    from transformers import DistilBertConfig, DistilBertModel

    class Last(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = DistilBertModel(DistilBertConfig())

        def forward(self, input_ids, attention_mask):
            return self.net(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    words = torch.randint(0, 30000, (1, 128))
    return Last().eval(), (words, torch.ones_like(words)), ["input_ids", "attention_mask"]


def image_net(name):
    import torchvision
    return settled(getattr(torchvision.models, name)(weights=None), IMAGE), (torch.randn(IMAGE),), ["x"]


def main():
    name, path = sys.argv[1:]
    torch.manual_seed(1)
    model, example, inputs = distilbert() if name == "distilbert" else image_net(name)
    with torch.no_grad():
        torch.onnx.export(model, example, path, dynamo=True, opset_version=20, input_names=inputs,
                          output_names=["y"], external_data=False)


if __name__ == "__main__":
    main()
