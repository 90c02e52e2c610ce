"""The WGAN-GP of PyTorch-GAN (github.com/eriklindernoren/PyTorch-GAN, implementations/wgan_gp), restated.

Both networks are dense layers. The critic makes five updates, each on its own batch; the generator's is made on the
images of the last of them. Runs in `.venv-bench`, which has PyTorch and NumPy alone, and writes samples of the trained
generator.
"""

import argparse
import itertools
import time
from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

_LATENT_SIZE, _BATCH, _CRITIC_STEPS, _PENALTY_WEIGHT, _RATE, _BETAS = 100, 64, 5, 10.0, 2e-4, (0.5, 0.999)
_SIDE = 28


def build_generator() -> nn.Module:
    """Latents [n, 100] to images [n, 784] in [-1, 1]; 0.8 is batch normalization's epsilon, as published."""
    sizes = (128, 256, 512, 1024)
    parts: list[nn.Module] = [nn.Linear(_LATENT_SIZE, sizes[0]), nn.LeakyReLU(0.2)]
    for before, after in itertools.pairwise(sizes):
        parts += [nn.Linear(before, after), nn.BatchNorm1d(after, 0.8), nn.LeakyReLU(0.2)]
    return nn.Sequential(*parts, nn.Linear(sizes[-1], _SIDE**2), nn.Tanh())


def build_critic() -> nn.Module:
    """Images [n, 784] to scores [n, 1]."""
    return nn.Sequential(
        nn.Linear(_SIDE**2, 512), nn.LeakyReLU(0.2), nn.Linear(512, 256), nn.LeakyReLU(0.2), nn.Linear(256, 1)
    )


def _penalty(critic: nn.Module, real: torch.Tensor, fake: torch.Tensor) -> torch.Tensor:
    weights = torch.rand(len(real), 1)
    points = (weights * real + (1 - weights) * fake).requires_grad_(True)
    (gradients,) = torch.autograd.grad(critic(points).sum(), points, create_graph=True)
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


def _batches(images: np.ndarray, seed: int) -> Iterator[torch.Tensor]:
    """Yield batches endlessly, each image once per epoch."""
    random = np.random.default_rng(seed)
    while True:
        order = random.permutation(len(images))
        for at in range(0, len(order) - _BATCH + 1, _BATCH):
            pixels = images[order[at : at + _BATCH]].reshape(_BATCH, -1)
            yield torch.from_numpy(pixels.astype(np.float32) / 127.5 - 1)


def train(images: np.ndarray, seconds: float, seed: int) -> tuple[nn.Module, int]:
    """Train on images uint8 [n, 28, 28, 1] for some seconds; return the generator and its number of updates."""
    torch.manual_seed(seed)
    generator, critic = build_generator(), build_critic()
    of_generator, of_critic = (torch.optim.Adam(net.parameters(), _RATE, _BETAS) for net in (generator, critic))
    batches, ends, updates = _batches(images, seed), time.monotonic() + seconds, 0
    while time.monotonic() < ends:
        for _ in range(_CRITIC_STEPS):
            real = next(batches)
            fake = generator(torch.randn(_BATCH, _LATENT_SIZE))
            loss = critic(fake.detach()).mean() - critic(real).mean()
            loss += _PENALTY_WEIGHT * _penalty(critic, real, fake.detach())
            of_critic.zero_grad()
            loss.backward()
            of_critic.step()
        of_generator.zero_grad()
        (-critic(fake).mean()).backward()
        of_generator.step()
        updates += 1
    return generator, updates


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", required=True, help="File of NumPy with images uint8 [n, 28, 28, 1].")
    parser.add_argument("--seconds", required=True, type=float)
    parser.add_argument("--seed", required=True, type=int)
    parser.add_argument("--samples", required=True, type=int)
    parser.add_argument("--output", required=True, help="File of NumPy for `pixels`, uint8, and `updates`.")
    given = parser.parse_args()
    generator, updates = train(np.load(given.images), given.seconds, given.seed)
    generator.eval()
    with torch.no_grad():
        drawn = generator(torch.randn(given.samples, _LATENT_SIZE)).numpy()
    pixels = np.rint((drawn + 1) * 127.5).clip(0, 255).astype(np.uint8).reshape(-1, _SIDE, _SIDE, 1)
    np.savez(given.output, pixels=pixels, updates=updates)


if __name__ == "__main__":
    main()
