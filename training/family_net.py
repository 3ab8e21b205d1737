"""One net of the family: its recipe, its training by steps, and the file that it goes on from.

Everything follows from the number of the step: the patches, the rate and the loss. A net that was stopped and goes on
has the weights that it would have without the stop.

The rate is constant after a short warm-up, because nobody knows how much spare time there will be, and falls to
nothing over the last share of the steps. NAME.stable.pt is kept from where it begins to fall: a longer training goes on
there.
"""

import math
import os
from dataclasses import dataclass

import numpy as np
import torch

import data
import evaluate
import nets
from train import Average, patch_loss, save_atomically, save_plain

LARGEST_STATE = 4 << 20  # bytes: what a net may keep
AVERAGE_EVERY = 4  # steps


@dataclass
class Recipe:
    rate: float
    expand: int  # width of the products that convolutions are trained as (nets.Convolution)
    batch: int
    patch: int
    steps: int
    cool: float = 0.25  # last share of the steps, in which the rate falls and the loss is the squared error
    average: float = 0.998
    clip: float = 1.0
    seed: int = 1


RECIPES = {
    "n8x4": Recipe(2e-3, 128, 8, 48, 400_000),
    "n16x5": Recipe(1.5e-3, 128, 8, 48, 300_000),
    "n16x11": Recipe(1e-3, 128, 4, 64, 200_000),
    "n24x5": Recipe(1e-3, 128, 8, 48, 200_000),
    "teacher": Recipe(5e-4, 40, 4, 64, 100_000),
}


def rate_at(step, recipe):
    warm = min(1.0, (step + 1) / 300)
    start = recipe.steps * (1 - recipe.cool)
    cooled = min(1.0, max(0.0, (step - start) / max(1.0, recipe.steps - start)))
    return recipe.rate * warm * (1e-3 + (1 - 1e-3) * 0.5 * (1 + math.cos(math.pi * cooled)))


class Training:
    """Steps of one net. folder: where its state is kept; init: plain weights to start from, if it is new."""

    def __init__(self, name, recipe, store, folder, init=None):
        self.name, self.recipe, self.folder = name, recipe, folder
        torch.manual_seed(recipe.seed)
        self.net = nets.ExitNet(name, recipe.expand)
        if init is not None:
            self.net.load_plain(init)
        self.net = self.net.to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.Adam(self.net.parameters(), recipe.rate, betas=(0.9, 0.99))
        self.average = Average(self.net, recipe.average)
        self.step_number = 0
        self.falling = False
        self.mixture = data.Mixture([(store, 1.0)], recipe.seed)
        if os.path.exists(self.path(".pt")):
            self.load(self.path(".pt"))

    def path(self, ending):
        return os.path.join(self.folder, self.name + ending)

    # -------------------------------------------- state

    def load(self, path):
        state = torch.load(path)
        self.net.load_state_dict(state["net"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.average.weights, self.average.steps = state["average"], state["average_steps"]
        self.step_number, self.falling = state["step"], state["falling"]

    def save(self, ending=".pt"):
        state = {
            "net": self.net.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "average": self.average.weights,
            "average_steps": self.average.steps,
            "step": self.step_number,
            "falling": self.falling,
        }
        save_atomically(self.path(ending), lambda name: torch.save(state, name))
        size = os.path.getsize(self.path(ending))
        if size > LARGEST_STATE:
            raise RuntimeError(f"{self.path(ending)} has {size} bytes, {LARGEST_STATE} are allowed")
        save_plain(self.path(".npz"), self.average.weights)

    # -------------------------------------------- work

    def cooling(self):
        return self.step_number >= self.recipe.steps * (1 - self.recipe.cool)

    def finished(self):
        return self.step_number >= self.recipe.steps

    def samples(self):
        """Small pixels seen."""
        return self.step_number * self.recipe.batch * self.recipe.patch**2

    def step(self):
        recipe = self.recipe
        if self.cooling() and not self.falling:
            self.save(".stable.pt")
        self.falling = self.cooling()
        for group in self.optimizer.param_groups:
            group["lr"] = rate_at(self.step_number, recipe)
        batch = self.mixture.batch_of_step(self.step_number, recipe.batch, recipe.patch)
        low, high, weight = map(torch.from_numpy, batch)
        picture = self.net(low.contiguous(memory_format=torch.channels_last))[0]
        loss = patch_loss(picture, high, weight, self.cooling())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        # A rare hard batch must not throw the weights off at a high rate.
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), recipe.clip)
        self.optimizer.step()
        self.step_number += 1
        if self.step_number % AVERAGE_EVERY == 0:
            self.average.update(self.net)
        return loss.item()

    def score(self, pairs):
        """Mean PSNR of the averaged weights."""
        net = nets.ExitNet(self.name)
        net.load_plain(self.average.weights)
        return evaluate.exit_scores(net, pairs)[0]


def multiply_adds(name):
    """Of a pixel of the small picture."""
    return evaluate.weight_count(nets.ExitNet(name), 0)


def parameters(name):
    return sum(int(np.prod(value.shape)) for value in nets.ExitNet(name).plain().values())
