"""What Switch, TaskMoE and SwinV2-MoE share: both forms with the same weights, what routers decide, float64.

A network's setup.py has VARIANTS {variant: Variant}; a Variant is its sizes, and plain(), dynamic(), inputs() and rows
of it. Relies on torch and brainstorm.torch. Must never: give both forms other weights, or take a decision for equal
without having seen it.
"""

import copy
from dataclasses import dataclass

import common
import torch

@dataclass(frozen=True)
class Mixture:
    """Sizes of a network, which is class `made` of zoo/NAME."""

    rows = False  # what decides looks at the whole batch, or is as long as it
    name = made = ""
    gates, skew = "", 0.0  # how the names of modules end that give scores; how much experts differ

    def network(self, part):
        torch.manual_seed(1)
        return getattr(common.loaded(self.name, part), self.made)(self).eval()

    def plain(self):
        net = self.network("plain")
        if self.gates:
            calibrate(net, self)
        return net

    def dynamic(self, plain=None):
        plain = plain or self.plain()
        net, state = self.network("dynamic"), plain.state_dict()
        net.load_state_dict({name: state[name.replace(".paths.", ".")] for name in net.state_dict()}, assign=True)
        return net


def calibrate(net, variant):
    """Gates by which loads are as was reported: of what tokens have in common they see nothing, scores have a standard
    deviation of 1, and those of an expert vary with a factor of its own."""
    random = torch.Generator().manual_seed(2)

    def settle(gate, given):
        x = given[0].flatten(0, -2)
        weight, mean = torch.randn(gate.weight.shape, generator=random), x.mean(0)
        weight -= (weight @ mean)[:, None] * mean / (mean @ mean)
        weight /= (x @ weight.T).std()
        gate.weight.copy_(weight * torch.exp(variant.skew * torch.randn(len(weight), 1, generator=random)))

    hooks = [m.register_forward_pre_hook(settle) for name, m in net.named_modules() if name.endswith(variant.gates)]
    with torch.no_grad():
        net(*variant.inputs())
    for hook in hooks:
        hook.remove()


@dataclass
class Seen:
    """What a router was given and chose, in float64."""

    scores: torch.Tensor  # [rows, paths]
    chosen: torch.Tensor  # [rows, k], -1 beyond the capacity
    apart: int = 0        # rows that were decided otherwise by who is compared
    margin: float = 0.0   # of those: how far the scores were from that decision, at most


def routers(net):
    from brainstorm.torch import Routed
    return [module for module in net.modules() if isinstance(module, Routed)]


def names(net):
    """What the importer calls them, in the order in which they run."""
    from brainstorm.torch import Routed
    return [name[-40:] for name, module in net.named_modules() if isinstance(module, Routed)]


def decided(moe, score):
    """What a Routed chooses."""
    score = score if score.is_floating_point() else moe.scores[score]
    gates, chosen = score.topk(moe.k, -1)
    gates = gates / gates.sum(-1, keepdim=True) if moe.normalise else gates
    return score, moe.within(chosen, gates) if moe.capacity else chosen


def watched(net, inputs, forced=None):
    """(result, [Seen of each router]). forced: [rows] of each router, the first choice of whoever is compared: where
    that is another one, it is taken, and counted."""
    seen, turn = [], iter(forced or ())

    def before(moe, given):
        score, chosen = decided(moe, given[1])
        seen.append(Seen(score, chosen))
        wanted = next(turn, None)
        if wanted is None or moe.k > 1:
            return None
        wrong = (chosen[:, 0] != wanted) & (score.amax(-1) > 0)  # of scores of nothing any path is chosen
        if not wrong.any():
            return None
        seen[-1].apart, seen[-1].margin = int(wrong.sum()), how_far(score, chosen[:, 0], wanted, wrong)
        kept = torch.zeros_like(score).scatter(1, wanted.clamp(min=0)[:, None], (wanted >= 0).to(score)[:, None])
        return given[0], score * kept

    hooks = [moe.register_forward_pre_hook(before) for moe in routers(net)]
    with torch.no_grad():
        y = net(*inputs)
    for hook in hooks:
        hook.remove()
    return y, seen


def how_far(score, chosen, wanted, wrong):
    """The most that a score would have to change for the other decision."""
    of = lambda choice: score.gather(1, choice.clamp(min=0)[:, None])[:, 0]
    both = wrong & (chosen >= 0) & (wanted >= 0)
    far = (of(chosen) - of(wanted))[both].abs().max().item() if both.any() else 0.0
    for path in torch.cat([chosen[wrong], wanted[wrong]]).unique():  # in or out, at the edge of a capacity
        edge = wrong & ~both & ((chosen == path) | (wanted == path))
        if path >= 0 and edge.any():
            gates = score[edge, path]
            far = max(far, (gates.max() - gates.min()).item() if edge.sum() > 1 else gates.max().item())
    return far


def double(net, inputs, forced=None):
    """The same of the network in float64."""
    net = copy.deepcopy(net).double()
    return watched(net, [x.double() if x.is_floating_point() else x for x in inputs], forced)
