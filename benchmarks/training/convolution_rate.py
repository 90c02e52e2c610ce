"""The device's convolution rate at the step's shapes as a contender: the layers of both networks and nothing else.

A step is each layer's forward pass and both gradients, for one batch, by PyTorch; on a GPU as one CUDA graph, so that
nothing waits for the host. Critic steps do not count. Runs where `torch_step.py` does.
"""

from collections.abc import Callable

import torch
from torch import nn

from benchmarks.lib import turns
from benchmarks.training import size
from benchmarks.training.torch_step import LATENT_SIZE, build_critic, build_generator, captured, use_precision

_Work = tuple[nn.Module, torch.Tensor, torch.Tensor]  # a layer, its input and the gradient of its output


def work_of(network: nn.Module, given: torch.Tensor, dtype: torch.dtype) -> tuple[list[_Work], int]:
    """Return the products of a network, and the multiplications and additions of one pass forward."""
    found: list[_Work] = []
    flops = 0

    def see(layer: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        nonlocal flops
        (x,) = inputs
        # A transposed convolution multiplies for each pixel of its input, the others for each of their output. The
        # channels of that side come first in the shape of the weights.
        pixels = (x if isinstance(layer, nn.ConvTranspose2d) else output).numel() // len(layer.weight)
        flops += 2 * layer.weight.numel() * pixels
        format = torch.channels_last if x.dim() == 4 else torch.contiguous_format
        x = x.detach().to(dtype, memory_format=format).requires_grad_()
        found.append((layer, x, torch.randn_like(output.detach().to(dtype, memory_format=format))))

    layers = [layer for layer in network.modules() if isinstance(layer, (nn.Conv2d, nn.ConvTranspose2d, nn.Linear))]
    hooks = [layer.register_forward_hook(see) for layer in layers]
    with torch.no_grad():
        network(given)
    for hook in hooks:
        hook.remove()
    network.to(dtype)
    return found, flops


def main() -> None:
    """Serve turns."""
    parser = size.parser()
    parser.add_argument("--precision", choices=("float32", "tf32", "bfloat16"), default="float32")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    given = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    use_precision(given.precision)
    dtype = torch.bfloat16 if given.precision == "bfloat16" else torch.float32
    everything: list[_Work] = []
    flops = 0
    for network, shape in (
        (build_generator(given.base_filters), (LATENT_SIZE,)),
        (build_critic(given.base_filters), (1, 28, 28)),
    ):
        network.to(given.device, memory_format=torch.channels_last)
        work, count = work_of(network, torch.randn(given.batch_size, *shape, device=given.device), dtype)
        everything, flops = everything + work, flops + 3 * count  # both gradients cost as much as the pass

    def step() -> None:
        for layer, x, gradient in everything:
            torch.autograd.grad(layer(x), (x, layer.weight), gradient)

    call: Callable[[], None] = captured(step) if given.device == "cuda" else step

    def train(steps: int) -> None:
        for _ in range(steps):
            call()
        if given.device == "cuda":
            torch.cuda.synchronize()

    train(2)
    turns.serve(train, {"flops": flops})


if __name__ == "__main__":
    main()
