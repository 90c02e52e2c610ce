"""Search for networks and settings on one GPU: many trainings side by side, in PyTorch.

A training of these small networks leaves a GPU almost idle. So each candidate's updates are captured as a CUDA graph,
and a dozen graphs run on streams of their own: one GPU makes some 1,200 updates a second. The networks and the update
are those of the train stage, restated; what wins here has to win there too (`quality.py`).

The distance is that of `held_out.py`, between features of a third classifier, of 6,000 samples from the 6,000 images
that end the official training file; neither the test images nor the spaces of the final table decide anything here.

    python -m benchmarks.judging.search --source fashion-mnist --candidates C.jsonl --results R.jsonl

A candidate is a line of JSON: `name`, and what differs from `DEFAULTS`. Needs PyTorch and NumPy alone.
"""

import argparse
import collections
import gzip
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from components.core.metrics import set_distances
from components.core.metrics.whitening import COMPONENTS_AT_MOST, fit_whitening

# The train stage's defaults before this search.
DEFAULTS: dict[str, Any] = {
    "seed": 0,
    "steps": 8000,
    "batch": 64,
    "generator_batch": 0,  # of a generator update; 0 for `batch`
    "critic_steps": 1,
    "critic_rate": 2.4e-3,
    "generator_rate": 1.2e-3,
    "decay": "linear",  # of both rates; or `half`: constant, then linear; or `cosine`
    "beta_1": 0.5,
    "beta_2": 0.9,
    "generator_beta_1": None,  # None for `beta_1`
    "penalty_weight": 10.0,
    "lookahead": 0,  # updates between moves halfway back
    "latent_size": 128,
    "classes": True,
    "stddev": 0.02,  # of initial weights
    "he": 0.0,  # factor of He's initial weights for the generator's convolutions, instead of `stddev`
    "leaky": False,  # leaky ReLU in the generator
    "conditional_norm": False,  # gain and shift of each normalization by class
    "filters": (64, 32, 0),  # of the generator at 7x7, 14x14 and 28x28; without the last, features to pixels directly
    "blocks": (0, 0, 0),  # residual blocks there
    "kernel": 3,  # of the convolution to the image
    "critic_filters": (32, 64, 64),  # of the three strided convolutions
    "critic_pixel_filters": 0,  # of a convolution at full size before them
    "critic_blocks": (0, 0),  # residual blocks after the first and the second
}  # fmt: skip
_EMA_DECAY, _EPSILON = 0.999, 1e-7
_VALIDATION, _EVALUATED = 6000, 2000
_UPDATES_PER_GRAPH, _REPLAYS = 4, 4
_LEAK = 0.2
Activation = Callable[[torch.Tensor], torch.Tensor]


class Normalize(nn.Module):
    """Batch normalization over the batch, never with moving statistics; with classes, gain and shift of each."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.gain, self.shift = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.by_class = nn.Parameter(torch.zeros(2, classes, channels)) if classes else None

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = F.batch_norm(x, None, None, None, None, True, 0.0, 1e-5)
        gain, shift = self.gain, self.shift
        if self.by_class is not None:
            gain, shift = gain + labels @ self.by_class[0], shift + labels @ self.by_class[1]
        return x * gain.reshape(-1, x.shape[1], 1, 1) + shift.reshape(-1, x.shape[1], 1, 1)


class Residual(nn.Module):
    """A residual block whose second convolution begins at zero; `classes` is None without normalization."""

    def __init__(self, channels: int, activation: Activation, classes: int | None) -> None:
        super().__init__()
        self.norms = None if classes is None else nn.ModuleList(Normalize(channels, classes) for _ in range(2))
        self.convolutions = nn.ModuleList(
            nn.Conv2d(channels, channels, 3, 1, 1, bias=classes is None) for _ in range(2)
        )
        self.activation = activation

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        inner = x
        for index, convolution in enumerate(self.convolutions):
            inner = inner if self.norms is None else self.norms[index](inner, labels)
            inner = convolution(self.activation(inner))
        return x + inner


class Generator(nn.Module):
    """Latents [n, latent_size] and one-hot labels [n, 10] to images [n, 1, 28, 28]."""

    def __init__(self, of: dict[str, Any]) -> None:
        super().__init__()
        self.of, classes = of, 10 if of["classes"] else 0
        self.activation = (lambda x: F.leaky_relu(x, _LEAK)) if of["leaky"] else F.relu
        by_class = classes if of["conditional_norm"] else 0
        filters = [count for count in of["filters"] if count]
        self.project = nn.Linear(of["latent_size"] + classes, 49 * filters[0], bias=False)
        self.blocks = nn.ModuleList(
            nn.ModuleList(Residual(count, self.activation, by_class) for _ in range(blocks))
            for count, blocks in zip(filters, of["blocks"], strict=False)
        )
        self.norms = nn.ModuleList(Normalize(count, by_class) for count in filters)
        ends = [*filters[1:], 1] if len(filters) == 2 else filters[1:]
        self.doubles = nn.ModuleList(
            nn.ConvTranspose2d(start, end, 4, 2, 1, bias=end == 1) for start, end in zip(filters, ends, strict=False)
        )
        self.to_image = nn.Conv2d(filters[2], 1, of["kernel"], 1, of["kernel"] // 2) if len(filters) == 3 else None
        _initialize(self, of)

    def forward(self, latents: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.project(torch.cat([latents, labels], 1) if self.of["classes"] else latents)
        x = x.view(len(x), -1, 7, 7)
        for level, (blocks, norm) in enumerate(zip(self.blocks, self.norms, strict=True)):
            for block in blocks:
                x = block(x, labels)
            x = self.activation(norm(x, labels))
            x = self.doubles[level](x) if level < len(self.doubles) else x
        return torch.tanh(x if self.to_image is None else self.to_image(x))


class Critic(nn.Module):
    """Images [n, 1, 28, 28] and one-hot labels [n, 10] to scores [n], by projection."""

    def __init__(self, of: dict[str, Any]) -> None:
        super().__init__()
        self.activation = lambda x: F.leaky_relu(x, _LEAK)
        first, second, third = of["critic_filters"]
        pixels = of["critic_pixel_filters"]
        self.pixels = nn.Conv2d(1, pixels, 3, 1, 1) if pixels else None
        self.halves = nn.ModuleList(
            [
                nn.Conv2d(pixels or 1, first, 4, 2, 1),
                nn.Conv2d(first, second, 4, 2, 1),
                nn.Conv2d(second, third, 4, 2, 2),
            ]
        )
        self.blocks = nn.ModuleList(
            nn.ModuleList(Residual(count, self.activation, None) for _ in range(blocks))
            for count, blocks in zip((first, second), of["critic_blocks"], strict=True)
        )
        self.score = nn.Linear(16 * third, 1, bias=False)
        self.score_of_classes = nn.Linear(16 * third, 10, bias=False) if of["classes"] else None
        _initialize(self, of)

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = images if self.pixels is None else self.activation(self.pixels(images))
        for level, half in enumerate(self.halves):
            x = half(x)
            for block in self.blocks[level] if level < 2 else ():
                x = block(x, labels)
            x = self.activation(x)
        x = x.flatten(1)
        score = self.score(x)[:, 0]
        return score if self.score_of_classes is None else score + (self.score_of_classes(x) * labels).sum(1)


def _initialize(network: nn.Module, of: dict[str, Any]) -> None:
    for name, parameter in network.named_parameters():
        if parameter.ndim >= 2 and not name.endswith("by_class"):
            he = of["he"] and isinstance(network, Generator) and parameter.ndim == 4
            nn.init.normal_(parameter, std=of["he"] * math.sqrt(2 / (9 * parameter.shape[1])) if he else of["stddev"])
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
    for module in network.modules():
        if isinstance(module, Residual):
            nn.init.zeros_(module.convolutions[1].weight)


def _flattened(network: nn.Module) -> tuple[list[nn.Parameter], torch.Tensor]:
    """Put all parameters into one tensor, of which they become views, so that an optimizer is a few kernels."""
    parameters, start = list(network.parameters()), 0
    flat = torch.cat([parameter.detach().reshape(-1) for parameter in parameters]).clone()
    for parameter in parameters:
        parameter.data = flat[start : start + parameter.numel()].view(parameter.shape)
        start += parameter.numel()
    return parameters, flat


class Trained:
    """One network as it is trained: its parameters, Adam's moments, and the slow copy of Lookahead."""

    def __init__(self, network: nn.Module, rate: float, beta_1: float, beta_2: float) -> None:
        self.network, self._rate, self._beta_1, self._beta_2 = network, rate, beta_1, beta_2
        self.parameters, self.flat = _flattened(network)
        self._first, self._second, self.slow = (torch.zeros_like(self.flat) for _ in range(3))
        self.begin(self.flat.clone())

    def begin(self, flat: torch.Tensor) -> None:
        self.flat.copy_(flat)
        self.slow.copy_(flat)
        self._first.zero_()
        self._second.zero_()

    def update(self, loss: torch.Tensor, count: torch.Tensor, factor: torch.Tensor) -> None:
        """Make Adam's update number `count`, with epsilon outside the corrected root as the train stage has it."""
        found = torch.autograd.grad(loss, self.parameters)
        with torch.no_grad():
            gradient = torch.cat([each.reshape(-1) for each in found])
            self._first.mul_(self._beta_1).add_(gradient, alpha=1 - self._beta_1)
            self._second.mul_(self._beta_2).addcmul_(gradient, gradient, value=1 - self._beta_2)
            correction = torch.sqrt(1 - torch.pow(self._beta_2, count))
            if self._beta_1:
                correction = correction / (1 - torch.pow(self._beta_1, count))
            step = self._first / (self._second.sqrt() + _EPSILON)
            self.flat.sub_(step * (self._rate * factor * correction).float())

    def look_ahead(self, now: torch.Tensor) -> None:
        """Move halfway back where `now` is 1 (Zhang et al. 2019)."""
        middle = 0.5 * (self.slow + self.flat)
        for each in (self.slow, self.flat):
            each.add_((middle - each) * now)


class Run:
    """The training of a candidate, on a stream of its own."""

    def __init__(self, changes: dict[str, Any], images: torch.Tensor, labels: torch.Tensor) -> None:
        self.name = changes["name"]
        of = self.of = {**DEFAULTS, **changes}
        self._images, self._labels, self._device = images, labels, images.device
        self._one_hot = torch.eye(10, device=self._device)
        torch.manual_seed(of["seed"])
        own = of["beta_1"] if of["generator_beta_1"] is None else of["generator_beta_1"]
        self._generator = Trained(Generator(of).to(self._device), of["generator_rate"], own, of["beta_2"])
        self._critic = Trained(Critic(of).to(self._device), of["critic_rate"], of["beta_1"], of["beta_2"])
        self._average = Generator(of).to(self._device)
        _, self._averaged = _flattened(self._average)
        self._averaged.copy_(self._generator.flat)
        self._step = torch.zeros((), device=self._device, dtype=torch.float64)
        self.done = 0
        self._event: Any = None
        self._stream = torch.cuda.Stream() if images.is_cuda else None
        if self._stream:
            self._capture(self._stream)

    def _capture(self, stream: Any) -> None:
        begun = [each.flat.clone() for each in (self._generator, self._critic)]
        with torch.cuda.stream(stream):
            for _ in range(2):
                self._update()
            stream.synchronize()
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph, stream=stream):
                for _ in range(_UPDATES_PER_GRAPH):
                    self._update()
        for trained, flat in zip((self._generator, self._critic), begun, strict=True):
            trained.begin(flat)
        self._averaged.copy_(self._generator.flat)
        self._step.zero_()
        torch.cuda.synchronize()

    @property
    def ready(self) -> bool:
        return self._event is None or bool(self._event.query())

    def advance(self) -> None:
        """Queue some updates."""
        if self._stream is None:
            self._update()
            self.done += 1
            return
        with torch.cuda.stream(self._stream):
            for _ in range(_REPLAYS):
                self._graph.replay()
            self._event = torch.cuda.Event()
            self._event.record(self._stream)
        self.done += _REPLAYS * _UPDATES_PER_GRAPH

    def _update(self) -> None:
        of, size = self.of, self.of["batch"]
        factor = self._factor(self._step / of["steps"])
        for inner in range(of["critic_steps"]):
            chosen = torch.randint(0, len(self._images), (size,), device=self._device)
            labels = self._one_hot[self._labels[chosen]]
            real = _to_floats(self._images[chosen])
            with torch.no_grad():
                fake = self._generator.network(self._latents(size), labels)
            scores = self._critic.network(torch.cat([real, fake]), torch.cat([labels, labels]))
            between = torch.rand(size, 1, 1, 1, device=self._device)
            points = (between * real + (1 - between) * fake).requires_grad_()
            total = self._critic.network(points, labels).sum()
            (gradient,) = torch.autograd.grad(total, points, create_graph=True)
            norms = (gradient.square().sum((1, 2, 3)) + 1e-12).sqrt()
            loss = (scores[size:] - scores[:size]).mean() + of["penalty_weight"] * (norms - 1).square().mean()
            self._critic.update(loss, self._step * of["critic_steps"] + inner + 1, factor)
        if of["generator_batch"]:
            size = of["generator_batch"]
            labels = self._one_hot[self._labels[torch.randint(0, len(self._images), (size,), device=self._device)]]
        images = self._generator.network(self._latents(size), labels)
        self._generator.update(-self._critic.network(images, labels).mean(), self._step + 1, factor)
        with torch.no_grad():
            if of["lookahead"]:
                now = (torch.remainder(self._step + 1, of["lookahead"]) == 0).float()
                self._generator.look_ahead(now)
                self._critic.look_ahead(now)
            kept = torch.clamp((1 + self._step) / (10 + self._step), max=_EMA_DECAY)
            current = self._generator.slow if of["lookahead"] else self._generator.flat
            self._averaged.sub_((self._averaged - current) * (1 - kept).float())
            self._step.add_(1)

    def _factor(self, share: torch.Tensor) -> torch.Tensor:
        if self.of["decay"] == "half":
            return torch.clamp(2 * (1 - share), max=1.0)
        return 0.5 * (1 + torch.cos(math.pi * share)) if self.of["decay"] == "cosine" else 1 - share

    def _latents(self, count: int) -> torch.Tensor:
        return torch.randn(count, self.of["latent_size"], device=self._device)

    @torch.no_grad()
    def draw(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw samples of the average, normalized over 2,000 at a time: uint8 [count, 28, 28], and their classes."""
        random, drawn = torch.Generator(self._device).manual_seed(7), []
        labels = torch.arange(count, device=self._device) % 10
        for part in labels.split(_EVALUATED):
            latents = torch.randn(len(part), self.of["latent_size"], device=self._device, generator=random)
            images = self._average(latents, self._one_hot[part])
            drawn.append(((images[:, 0] + 1) * 127.5).round().clamp(0, 255).to(torch.uint8))
        return torch.cat(drawn), labels


class Judge:
    """Fréchet distance of samples from validation images, in 64 whitened directions of a classifier's features."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor, validation: torch.Tensor, updates: int) -> None:
        torch.manual_seed(99)
        sides = [(1, 48), (48, 96), (96, 160), (160, 160)]
        layers: list[nn.Module] = []
        for index, (start, end) in enumerate(sides):
            layers += [nn.Conv2d(start, end, 3, 1, 1), nn.GELU(), *([nn.MaxPool2d(2)] if index != 2 else [])]
        layers += [nn.Flatten(), nn.Dropout(0.3), nn.Linear(160 * 9, 128), nn.GELU()]
        self._features = nn.Sequential(*layers).to(images.device)
        self._logits = nn.Linear(128, 10).to(images.device)
        parameters = [*self._features.parameters(), *self._logits.parameters()]
        adam = torch.optim.Adam(parameters, 1e-3)
        rates = torch.optim.lr_scheduler.LinearLR(adam, 1.0, 1e-3, updates)
        for _ in range(updates):
            chosen = torch.randint(0, len(images), (128,), device=images.device)
            loss = F.cross_entropy(self._logits(self._features(_to_floats(images[chosen]))), labels[chosen])
            adam.zero_grad()
            loss.backward()
            adam.step()
            rates.step()
        self._features.eval()
        self._whitening = fit_whitening(self._embed(images).cpu().numpy(), COMPONENTS_AT_MOST)
        self._real = self._whitened(validation)
        self.floor = self.distance(images[: len(validation)])

    @torch.no_grad()
    def _embed(self, images: torch.Tensor) -> torch.Tensor:
        return torch.cat([self._features(_to_floats(part)) for part in images.split(_EVALUATED)])

    def _whitened(self, images: torch.Tensor) -> np.ndarray:
        return self._whitening(self._embed(images).cpu().numpy())

    def distance(self, images: torch.Tensor) -> float:
        return set_distances.frechet_distance(self._whitened(images), self._real)

    @torch.no_grad()
    def accuracy(self, images: torch.Tensor, labels: torch.Tensor) -> float:
        return float((self._logits(self._embed(images)).argmax(1) == labels).double().mean())


def _to_floats(pixels: torch.Tensor) -> torch.Tensor:
    return pixels.float()[:, None] / 127.5 - 1


def _load(source: Path, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    found = []
    for file, header in (("train-images-idx3-ubyte.gz", 16), ("train-labels-idx1-ubyte.gz", 8)):
        content = np.frombuffer(gzip.decompress((source / file).read_bytes()), np.uint8, offset=header)
        found.append(torch.tensor(content).to(device))
    return found[0].view(-1, 28, 28), found[1].long()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True, type=Path, help="folder of Fashion-MNIST's four files")
    parser.add_argument("--candidates", required=True, type=Path)
    parser.add_argument("--results", required=True, type=Path)
    parser.add_argument("--streams", type=int, default=14, help="candidates at a time")
    parser.add_argument("--classifier_updates", type=int, default=3368)
    given = parser.parse_args()
    device, started = "cuda" if torch.cuda.is_available() else "cpu", time.monotonic()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    images, labels = _load(given.source, device)
    validation, images, labels = images[-_VALIDATION:], images[:-_VALIDATION], labels[:-_VALIDATION]
    judge = Judge(images, labels, validation, given.classifier_updates)
    print(f"real against real: {judge.floor:.4f}", flush=True)
    queue = collections.deque(map(json.loads, given.candidates.read_text("utf-8").splitlines()))
    running: list[Run] = []
    with given.results.open("a", encoding="utf-8") as results:
        while queue or running:
            while queue and len(running) < given.streams:
                running.append(Run(queue.popleft(), images, labels))
            for run in [run for run in running if run.ready]:
                run.advance()
                if run.done >= run.of["steps"]:
                    if device == "cuda":
                        torch.cuda.synchronize()
                    drawn, of_drawn = run.draw(_VALIDATION)
                    row = {"name": run.name, "distance": judge.distance(drawn), "floor": judge.floor}
                    row |= {"accuracy": judge.accuracy(drawn, of_drawn), "seconds": time.monotonic() - started}
                    results.write(json.dumps(row) + "\n")
                    print(json.dumps(row), flush=True)
                    running.remove(run)


if __name__ == "__main__":
    main()
