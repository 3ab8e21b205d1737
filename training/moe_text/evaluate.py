"""Bits per character, and what streaming weights lives on: how even, how sticky and how foreseeable the routing is.

    python3 evaluate.py --codes DIR STATE.pt [--guess GUESS.pt]

STATE.pt is train.py's, GUESS.pt predict.py's. Recall: of the two experts that a router chose, the share among
the two that were expected.
"""

import argparse
import math
import os

import torch
import torch.nn.functional as F

import data
import model

PIECE = 2 * model.WINDOW  # of it only the second half counts: there the window is full, as when text is generated


def pieces(codes):
    starts = torch.arange(0, len(codes) - PIECE, model.WINDOW)[:, None]
    return codes[starts + torch.arange(PIECE + 1)]


def bits(net, codes, batch=32):
    """Bits per character of a text; every character behind the first window counts once."""
    total = count = 0
    for part in pieces(codes).split(batch):
        with torch.no_grad():
            logits, _ = net(part[:, :-1])
        logits = logits[:, model.WINDOW :].reshape(-1, model.CODES)
        total += F.cross_entropy(logits, part[:, model.WINDOW + 1 :].reshape(-1), reduction="sum").item() / math.log(2)
        count += len(logits)
    return total / count


def watch(net, codes, most=400, batch=32):
    """Per layer the stream at the router [n, PIECE, width] and the chosen experts [n, PIECE, 2], second halves."""
    seen = [([], []) for _ in range(model.LAYERS)]

    def keep(layer, x, chosen):
        seen[layer][0].append(x.view(-1, PIECE, model.WIDTH)[:, model.WINDOW :])
        seen[layer][1].append(chosen.view(-1, PIECE, model.TOP)[:, model.WINDOW :])

    every = pieces(codes)
    for part in every[:: max(1, len(every) // most)].split(batch):
        with torch.no_grad():
            net(part[:, :-1], keep)
    return [(torch.cat(x), torch.cat(chosen)) for x, chosen in seen]


def recall(expected, chosen):
    """Share of `chosen` [..., 2] that is in `expected` [..., k]."""
    return (chosen.unsqueeze(-1) == expected.unsqueeze(-2)).any(-1).float().mean().item()


def look_ahead(net, layer, x):
    """Router `layer` + 1 on what is known before the experts of `layer`."""
    following = net.layers[layer + 1]
    return following.norm2(x) @ following.experts.router.t()


def guess(net, predictor, layer, x):
    """A trained linear guess, from the rows that the router of `layer` sees."""
    return net.layers[layer].norm2(x) @ predictor["weight"].t() + predictor["bias"]


def routing_table(net, seen, guesses):
    lines = []
    for layer, (x, chosen) in enumerate(seen):
        load = torch.bincount(chosen.reshape(-1), minlength=model.EXPERTS).float()
        load /= load.sum()
        share = net.layers[layer].experts.route(net.layers[layer].norm2(x))[0]
        pair = chosen.sort(-1)[0]
        row = [
            str(layer),
            f"{100 * load.min():.1f} .. {100 * load.max():.1f}",
            f"{-(load * load.clamp_min(1e-9).log2()).sum():.2f}",
            f"{-(share * share.clamp_min(1e-9).log2()).sum(-1).mean():.2f}",
            f"{100 * (pair[:, 1:] == pair[:, :-1]).all(-1).float().mean():.1f}",
            f"{100 * recall(chosen[:, :-1], chosen[:, 1:]):.1f}",
            f"{100 * recall(load.topk(model.TOP)[1].expand_as(chosen), chosen):.1f}",
        ]
        if layer > 0:
            before = seen[layer - 1][0]
            row.append(f"{100 * recall(look_ahead(net, layer - 1, before).topk(model.TOP)[1], chosen):.1f}")
            if guesses:
                guessed = guess(net, guesses[layer - 1], layer - 1, before).topk(model.TOP)[1]
                row.append(f"{100 * recall(guessed, chosen):.1f}")
        lines.append("| " + " | ".join(row + ["-"] * (8 + bool(guesses) - len(row))) + " |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("state")
    parser.add_argument("--codes", required=True)
    parser.add_argument("--guess")
    args = parser.parse_args()
    torch.set_num_threads(1)
    net = model.Text().eval()
    net.load_state_dict(torch.load(args.state, map_location="cpu")["net"])
    guesses = torch.load(args.guess) if args.guess else None
    for name in ("", "_bible", "_devil", "_jargon"):
        codes = data.load(os.path.join(args.codes, f"held{name}.codes"))
        print(f"held{name}: {bits(net, codes):.3f} bits per character")
    seen = watch(net, data.load(os.path.join(args.codes, "held.codes")))
    print("| layer | load, % | entropy of load | of a row | same pair next, % | previous row's, % | most used, % |"
          " look-ahead, % |"
          + (" trained guess, % |" if guesses else ""))
    print("|---" * (8 + bool(guesses)) + "|")
    print("\n".join(routing_table(net, seen, guesses)))
    loads = [torch.bincount(chosen.reshape(-1), minlength=model.EXPERTS) for _, chosen in seen]
    for layer, load in enumerate(loads):
        print(f"layer {layer}, share of each expert in %:",
              " ".join(f"{100 * n / load.sum():.1f}" for n in load.sort(descending=True)[0]))


if __name__ == "__main__":
    main()
