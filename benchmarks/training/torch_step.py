"""The same step in PyTorch as a contender, channels last.

Runs in `.venv-bench`, which has PyTorch and NumPy alone, on a GPU in `.venv-bench-gpu`.

The networks are those of components/core/networks/gan.py with its default settings. The critic's last convolution pads
by 2 on each side where TensorFlow pads by 1 and 2: as many products, and no operation of its own for the padding.
"""

import time
from collections.abc import Callable, Sequence

import torch
from torch import nn

from benchmarks.lib import fashion_mnist, turns
from benchmarks.training import size
from components.train.config import TrainConfig

LATENT_SIZE = TrainConfig.latent_size
_LEAK = 0.2
_PENALTY_WEIGHT = 10.0
_BETAS = (0.0, 0.99)


class Residual(nn.Module):
    """Two normalized convolutions, added to their input."""

    def __init__(self, filters: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for _ in range(2):
            layers += [nn.BatchNorm2d(filters), nn.ReLU(), nn.Conv2d(filters, filters, 3, 1, 1, bias=False)]
        self.inner = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.inner(x)


def build_generator(filters: int) -> nn.Module:
    """Latents to images: float32 [n, 32] to [n, 1, 28, 28]; `filters` at half the sides, twice as many before."""
    return nn.Sequential(
        nn.Linear(LATENT_SIZE, 7 * 7 * 2 * filters, bias=False),
        nn.Unflatten(1, (2 * filters, 7, 7)),
        nn.BatchNorm2d(2 * filters),
        nn.ReLU(),
        nn.ConvTranspose2d(2 * filters, filters, 4, 2, 1, bias=False),
        Residual(filters),
        nn.BatchNorm2d(filters),
        nn.ReLU(),
        nn.ConvTranspose2d(filters, filters // 2, 4, 2, 1, bias=False),
        nn.BatchNorm2d(filters // 2),
        nn.ReLU(),
        nn.Conv2d(filters // 2, 1, 3, 1, 1),
        nn.Tanh(),
    )


def build_critic(filters: int) -> nn.Module:
    """Images to scores: float32 [n, 1, 28, 28] to [n, 1]; `filters` next to the image, twice as many after."""
    return nn.Sequential(
        nn.Conv2d(1, filters, 4, 2, 1),
        nn.LeakyReLU(_LEAK),
        nn.Conv2d(filters, 2 * filters, 4, 2, 1),
        nn.LeakyReLU(_LEAK),
        nn.Conv2d(2 * filters, 2 * filters, 4, 2, 2),
        nn.LeakyReLU(_LEAK),
        nn.Flatten(),
        nn.Linear(4 * 4 * 2 * filters, 1, bias=False),
    )


class TorchWgan:
    """Networks, optimizers, and the updates of components/train/step.py.

    Args:
        filters: Of the layers next to the image.
        bfloat16: Whether the networks run under bfloat16 autocast; weights, losses and penalty stay in float32.
        compiled: Whether `torch.compile` compiles the two losses and their gradients.
        device: `cpu` or `cuda`.
    """

    def __init__(self, filters: int, bfloat16: bool, compiled: bool, device: str = "cpu") -> None:
        self._bfloat16, self._device = bfloat16, device
        self.generator = build_generator(filters).to(device, memory_format=torch.channels_last)
        self.critic = build_critic(filters).to(device, memory_format=torch.channels_last)
        self._generator_weights = list(self.generator.parameters())
        self._critic_weights = list(self.critic.parameters())
        # Capturable: its step counts are on the GPU, so that a CUDA graph may contain it.
        more = {"fused": True, "capturable": device == "cuda"}
        self._generator_adam = torch.optim.Adam(self._generator_weights, 6e-4, _BETAS, eps=1e-7, **more)
        self._critic_adam = torch.optim.Adam(self._critic_weights, 1.2e-3, _BETAS, eps=1e-7, **more)
        self._critic_gradients = torch.compile(self._critic_terms) if compiled else self._critic_terms
        self._generator_gradients = torch.compile(self._generator_terms) if compiled else self._generator_terms

    def critic_update(self, real: torch.Tensor) -> torch.Tensor:
        """Make one critic update on real images, float32 [n, 1, 28, 28]; return the loss."""
        count = len(real)
        latents = torch.randn(count, LATENT_SIZE, device=self._device)
        weights = torch.rand(count, 1, 1, 1, device=self._device)
        loss, gradients = self._critic_gradients(real, latents, weights)
        _apply(self._critic_adam, self._critic_weights, gradients)
        return loss

    def generator_update(self, count: int) -> torch.Tensor:
        """Make one generator update on `count` fakes; return the loss."""
        loss, gradients = self._generator_gradients(torch.randn(count, LATENT_SIZE, device=self._device))
        _apply(self._generator_adam, self._generator_weights, gradients)
        return loss

    def _critic_terms(
        self, real: torch.Tensor, latents: torch.Tensor, weights: torch.Tensor
    ) -> tuple[torch.Tensor, Sequence[torch.Tensor]]:
        with torch.no_grad(), self._autocast():
            fake = self.generator(latents).float()
        points = (weights * real + (1.0 - weights) * fake).requires_grad_()
        with self._autocast():
            real_scores, fake_scores = self.critic(torch.cat([real, fake])).float().chunk(2)
            total = self.critic(points).float().sum()
        (slopes,) = torch.autograd.grad(total, points, create_graph=True)
        norms = torch.sqrt(slopes.float().square().sum([1, 2, 3]) + 1e-12)
        loss = fake_scores.mean() - real_scores.mean() + _PENALTY_WEIGHT * (norms - 1.0).square().mean()
        return loss.detach(), torch.autograd.grad(loss, self._critic_weights)

    def _generator_terms(self, latents: torch.Tensor) -> tuple[torch.Tensor, Sequence[torch.Tensor]]:
        with self._autocast():
            loss = -self.critic(self.generator(latents)).float().mean()
        return loss.detach(), torch.autograd.grad(loss, self._generator_weights)

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self._device, torch.bfloat16, enabled=self._bfloat16)


def _apply(adam: torch.optim.Adam, weights: Sequence[nn.Parameter], gradients: Sequence[torch.Tensor]) -> None:
    for weight, gradient in zip(weights, gradients, strict=True):
        weight.grad = gradient
    adam.step()


def use_precision(name: str) -> None:
    """Let float32 products on a GPU be exact, or be made of TensorFloat-32 (`tf32`)."""
    for backend in (torch.backends.cuda.matmul, torch.backends.cudnn.conv):
        backend.fp32_precision = "tf32" if name == "tf32" else "ieee"


def captured(step: Callable[[], None]) -> Callable[[], None]:
    """Return a step of static shapes as one CUDA graph, after some calls that choose kernels and allocate."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    replay: Callable[[], None] = graph.replay
    return replay


def main() -> None:
    """Serve turns."""
    parser = size.parser()
    parser.add_argument("--precision", choices=("float32", "tf32", "bfloat16"), default="float32")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--graph", action="store_true", help="the whole step as one CUDA graph")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    torch.backends.cudnn.benchmark = True
    use_precision(options.precision)
    wgan = TorchWgan(options.base_filters, options.precision == "bfloat16", options.compile, options.device)
    pixels = torch.from_numpy(fashion_mnist.load_images()).permute(0, 3, 1, 2).to(options.device)
    losses: list[torch.Tensor] = []

    def step() -> None:
        losses.clear()
        for _ in range(options.critic_steps):
            chosen = torch.randint(0, len(pixels), (options.batch_size,), device=options.device)
            real = (pixels[chosen].float() / 127.5 - 1.0).contiguous(memory_format=torch.channels_last)
            losses.append(wgan.critic_update(real))
        losses.append(wgan.generator_update(options.batch_size))

    call: Callable[[], None] = step

    def train(steps: int) -> None:
        for _ in range(steps):
            call()
        if not all(torch.isfinite(loss) for loss in losses):
            raise RuntimeError("a loss is not finite")

    started = time.perf_counter()
    if options.graph:
        call = captured(step)
    train(1)
    facts = {
        "first_call_seconds": time.perf_counter() - started,
        "generator_parameters": sum(weight.numel() for weight in wgan.generator.parameters()),
        "critic_parameters": sum(weight.numel() for weight in wgan.critic.parameters()),
        "version": torch.__version__,
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }
    if options.device == "cuda":
        facts["peak_bytes"] = torch.cuda.max_memory_allocated()
    turns.serve(train, facts)


if __name__ == "__main__":
    main()
