"""Train the guesses: per layer, from what its router sees, the experts that the next layer's router will choose.

    python3 predict.py --codes DIR STATE.pt GUESS.pt [--minutes 3]

The net stays as it is. Each guess is one linear layer 96 -> 16, trained on the router's two choices. It replaces the
plain look-ahead (the next router on this layer's rows) where it foresees more.
"""

import argparse
import os
import time

import torch
import torch.nn.functional as F

import data
import model


def rows(net, codes, generator):
    """Inputs of every router but the last, and the choices of the one behind it."""
    seen = []
    inputs, _ = data.batch(codes, 8, 256, generator)
    with torch.no_grad():
        net(inputs, lambda layer, x, chosen: seen.append((net.layers[layer].norm2(x), chosen)))
    return [(seen[i][0], F.one_hot(seen[i + 1][1], model.EXPERTS).sum(1).float()) for i in range(model.LAYERS - 1)]


def train(net, codes, minutes):
    generator = torch.Generator().manual_seed(7)
    heads = [torch.nn.Linear(model.WIDTH, model.EXPERTS) for _ in range(model.LAYERS - 1)]
    optimizer = torch.optim.AdamW([p for h in heads for p in h.parameters()], 1e-2, weight_decay=0.0)
    start = time.time()
    while (progress := (time.time() - start) / (60 * minutes)) < 1:
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * (1 - progress) + 1e-5
        parts = zip(heads, rows(net, codes, generator))
        loss = sum(F.binary_cross_entropy_with_logits(head(x), wanted) for head, (x, wanted) in parts)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [{"weight": h.weight.detach(), "bias": h.bias.detach()} for h in heads], loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("state")
    parser.add_argument("out")
    parser.add_argument("--codes", required=True)
    parser.add_argument("--minutes", type=float, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    net = model.Text().eval()
    net.load_state_dict(torch.load(args.state, map_location="cpu")["net"])
    guesses, loss = train(net, data.load(os.path.join(args.codes, "train.codes")), args.minutes)
    torch.save(guesses, args.out)
    print(f"loss {loss:.4f}")


if __name__ == "__main__":
    main()
