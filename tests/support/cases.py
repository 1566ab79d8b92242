"""Training steps that went wrong for users of activation checkpointing.

Each class is the model of one public report, small enough for a CPU, and each factory
in `CASES` returns that model with its loss inside and the step's inputs, as
`(model, args)`. Weights and inputs come from a fixed seed; models are in train mode.

What must hold for every one of them, at every budget that is accepted: loss,
gradients, buffers and random state are bit for bit those of the unplanned step, the
peak is the predicted one, and a budget at the unplanned peak recomputes nothing.
"""

from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own abbreviation
from torch import Tensor, nn

Case = tuple[nn.Module, tuple[Tensor, ...]]
Factory = Callable[[], Case]


class SquaredMean(nn.Module):
    """A model whose loss is the mean of its squared outputs."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *args: Tensor) -> Tensor:
        return self.model(*args).square().mean()


class NoisyDropout(nn.Module):
    """Linear layers, each with dropout and multiplicative noise behind it.

    https://github.com/pytorch/pytorch/issues/190758: with random ops inside what is
    recomputed, all gradients were silently wrong. Two successive steps must draw
    different masks, and a recomputed draw must repeat its first one.
    """

    def __init__(self, width: int = 64, depth: int = 4) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = F.dropout(torch.relu(layer(x)), 0.3, self.training)
            x = x + 0.1 * torch.randn_like(x) * x
        return x


class NormedConvolutions(nn.Sequential):
    """Convolutions with BatchNorm, whose running statistics move once a step.

    https://github.com/pytorch/pytorch/issues/96136 and
    https://github.com/Tencent/YOLO-Master/issues/262: recomputing a BatchNorm moved
    its buffers twice. After three steps `num_batches_tracked` must be 3.
    """

    def __init__(self, channels: int = 8, depth: int = 4) -> None:
        super().__init__(
            *(
                nn.Sequential(
                    nn.Conv2d(channels, channels, 3, padding=1),
                    nn.BatchNorm2d(channels),
                    nn.ReLU(),
                )
                for _ in range(depth)
            )
        )


class InPlace(nn.Module):
    """Activations overwritten in place, on views and slices; its output is a view.

    https://github.com/pytorch/pytorch/issues/119590, /113737 and /36383: an in-place
    op behind a saved matmul corrupted it. The output must keep its strides.
    """

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.weights = nn.ParameterList(
            nn.Parameter(torch.randn(width, width) * 0.2) for _ in range(3)
        )
        self.shift = nn.Parameter(torch.randn(width) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        for weight in self.weights:
            x = F.selu_(x @ weight)
        whole = (x + self.shift)[:]
        whole.relu_()
        sliced = x.clone()
        sliced[:, :16].mul_(2.0).add_(self.shift[:16])
        return (whole + sliced).t()


class TiedAndShared(nn.Module):
    """An embedding tied to the head, and one block applied six times.

    https://github.com/pytorch/pytorch/issues/81296 and
    https://github.com/deepspeedai/DeepSpeed/issues/2103: hooks on a shared parameter
    fired more than once. Each must fire once a backward, and the shared weight counts
    once.
    """

    def __init__(self, words: int = 50, width: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.block = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 2 * width),
            nn.GELU(),
            nn.Linear(2 * width, width),
        )
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, words: Tensor, targets: Tensor) -> Tensor:
        x = self.embedding(words)
        for _ in range(6):
            x = x + self.block(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), targets)


class LowRank(nn.Module):
    """A frozen linear layer with a trainable low-rank correction."""

    def __init__(self, width: int, rank: int = 4) -> None:
        super().__init__()
        self.frozen = nn.Linear(width, width).requires_grad_(requires_grad=False)
        self.down = nn.Parameter(torch.randn(rank, width) * 0.02)
        self.up = nn.Parameter(torch.full((width, rank), 0.01))

    def forward(self, x: Tensor) -> Tensor:
        return self.frozen(x) + (x @ self.down.t()) @ self.up.t()


class FrozenPrefix(nn.Module):
    """Six frozen blocks under six blocks that train by low-rank corrections.

    https://github.com/huggingface/transformers/issues/42489, /19340 and /16276:
    checkpointing lost the gradients, or recomputed the frozen part. Nothing of the
    frozen prefix is needed by the backward, so none of it may run twice.
    """

    def __init__(self, words: int = 100, width: int = 64) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width).requires_grad_(requires_grad=False)
        frozen = (
            nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            )
            for _ in range(6)
        )
        self.prefix = nn.Sequential(*frozen).requires_grad_(requires_grad=False)
        self.top = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(width).requires_grad_(requires_grad=False),
                LowRank(width),
                nn.GELU(),
            )
            for _ in range(6)
        )

    def forward(self, words: Tensor) -> Tensor:
        x = self.prefix(self.embedding(words))
        for block in self.top:
            x = x + block(x)
        return x


class RootMeanSquareNorm(nn.Module):
    """RMSNorm written out, as Llama's model code does."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        return x * scale * self.weight


class LlamaBlock(nn.Module):
    """Attention and a gated MLP, each behind a norm and beside a residual."""

    def __init__(self, width: int = 64, hidden: int = 176, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = RootMeanSquareNorm(width)
        self.mlp_norm = RootMeanSquareNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width, bias=False)
        self.output = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        heads = self.query_key_value(self.attention_norm(x))
        heads = heads.view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(mixed.transpose(1, 2).reshape(batch, length, width))
        y = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class LlamaStack(nn.Sequential):
    """Sixteen Llama blocks.

    https://github.com/pytorch/pytorch/issues/197838: as the budget fell, the peak
    rose. Every budget from 11 MB up must be met, with a peak that does not rise and a
    cost that does not fall as the budget falls.
    """

    def __init__(self, depth: int = 16) -> None:
        super().__init__(*(LlamaBlock() for _ in range(depth)))


class ContextBlock(nn.Module):
    """An MLP beside a residual, with an optional context added before it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
        )
        self.context = nn.Linear(width, width)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        if context is not None:
            x = x + self.context(context)
        return x + self.mlp(x)


class TraversedTwice(nn.Module):
    """Eight blocks run twice in one step, without and with a context.

    https://github.com/pytorch/pytorch/issues/193193: recomputation of one traversal
    was hoisted into the other. 8 MB must be enough.
    """

    def __init__(self, depth: int = 8, width: int = 64) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(ContextBlock(width) for _ in range(depth))

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        plain = with_context = x
        for block in self.blocks:
            plain = block(plain)
        for block in self.blocks:
            with_context = block(with_context, context)
        return plain.mean() + with_context.square().mean()


class ThinWithOneWideLayer(nn.Sequential):
    """A long thin MLP whose one wide layer sets the floor of its memory.

    https://github.com/parasj/checkmate/issues/151 and /144: nobody could tell which
    budget was feasible. The wide tanh and its tangent, 4 MiB each, are what the
    smallest budget is made of.
    """

    def __init__(self) -> None:
        widths = [64] * 14 + [512] + [64] * 5
        layers = ((nn.Linear(a, b), nn.Tanh()) for a, b in pairwise(widths))
        super().__init__(*(module for pair in layers for module in pair))


class BiasFreeBlock(nn.Module):
    """Two linear layers without bias behind a norm, beside a residual."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.second = nn.Linear(width, width, bias=False)
        self.first = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.second(self.first(self.norm(x)))


class BiasFreeStack(nn.Sequential):
    """Twelve residual blocks of two linear layers each, summed up.

    https://github.com/pytorch/pytorch/issues/149258: at 99 % of the peak, PyTorch's
    partitioner recomputed ten matmuls. None is needed.
    """

    def __init__(self, words: int = 100, width: int = 64, depth: int = 12) -> None:
        blocks = (BiasFreeBlock(width) for _ in range(depth))
        super().__init__(nn.Embedding(words, width), *blocks)

    def forward(self, words: Tensor) -> Tensor:
        return super().forward(words).sum()


def _double_convolution(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.GroupNorm(4, outputs),
        nn.SiLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1),
        nn.SiLU(),
    )


class UNet(nn.Module):
    """A U-Net of three levels: each level's output waits for its mirror.

    https://github.com/gpleiss/efficient_densenet_pytorch/issues/76 and
    https://github.com/Project-MONAI/MONAI/pull/8554: long skips defeat segments of a
    chain. 7.6 MB must be enough, with at most 14 convolutions run again.
    """

    def __init__(self, channels: int = 8, depth: int = 3) -> None:
        super().__init__()
        widths = [channels * 2**level for level in range(depth + 1)]
        self.inlet = _double_convolution(3, channels)
        self.down = nn.ModuleList(
            _double_convolution(a, b) for a, b in pairwise(widths)
        )
        self.up = nn.ModuleList(
            _double_convolution(a + b, a) for a, b in reversed(list(pairwise(widths)))
        )
        self.outlet = nn.Conv2d(channels, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        levels = [self.inlet(x)]
        for down in self.down:
            levels.append(down(F.max_pool2d(levels[-1], 2)))
        x = levels.pop()
        for up in self.up:
            x = up(torch.cat([F.interpolate(x, scale_factor=2), levels.pop()], 1))
        return self.outlet(x)


class LargeHead(nn.Module):
    """Small blocks under a head of 8,000 words: the logits are the peak.

    https://github.com/NVIDIA-NeMo/Automodel/issues/3907 and
    https://github.com/huggingface/trl/pull/5575: users checkpointed blocks, which
    cannot help. Three logits-sized tensors are the floor, in log_softmax's backward.
    """

    def __init__(self, words: int = 8000, width: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.head = nn.Linear(width, words, bias=False)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(width),
                nn.Linear(width, 4 * width),
                nn.GELU(),
                nn.Linear(4 * width, width),
            )
            for _ in range(4)
        )

    def forward(self, words: Tensor) -> Tensor:
        x = self.embedding(words)
        for block in self.blocks:
            x = x + block(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), words.flatten())


def noisy_dropout() -> Case:
    """Return S01: dropout and noise in every layer."""
    torch.manual_seed(0)
    return SquaredMean(NoisyDropout()).train(), (torch.randn(32, 64),)


def batch_norm() -> Case:
    """Return S02: convolutions with BatchNorm."""
    torch.manual_seed(0)
    return SquaredMean(NormedConvolutions()).train(), (torch.randn(4, 8, 16, 16),)


def in_place() -> Case:
    """Return S03: in-place ops on activations, views and slices."""
    torch.manual_seed(0)
    return SquaredMean(InPlace()).train(), (torch.randn(16, 32),)


def tied_and_shared() -> Case:
    """Return S05: a tied embedding and a block applied six times."""
    torch.manual_seed(0)
    model, targets = TiedAndShared(), torch.randint(0, 50, (64,))
    return model.train(), (torch.randint(0, 50, (4, 16)), targets)


def frozen_prefix() -> Case:
    """Return S06: frozen blocks under low-rank corrections."""
    torch.manual_seed(0)
    return SquaredMean(FrozenPrefix()).train(), (torch.randint(0, 100, (8, 64)),)


def llama_stack() -> Case:
    """Return S07: sixteen Llama blocks."""
    torch.manual_seed(0)
    return SquaredMean(LlamaStack()).train(), (torch.randn(8, 128, 64),)


def traversed_twice() -> Case:
    """Return S08: the same blocks twice in one step."""
    torch.manual_seed(0)
    inputs = torch.randn(16, 64, 64), torch.randn(16, 64, 64)
    return TraversedTwice().train(), inputs


def thin_with_one_wide_layer() -> Case:
    """Return S09: a thin MLP with one wide layer."""
    torch.manual_seed(0)
    return SquaredMean(ThinWithOneWideLayer()).train(), (torch.randn(2048, 64),)


def bias_free_stack() -> Case:
    """Return S10: residual blocks of two bias-free linear layers."""
    torch.manual_seed(0)
    return BiasFreeStack().train(), (torch.randint(0, 100, (256,)),)


def u_net() -> Case:
    """Return S12: a U-Net of three levels."""
    torch.manual_seed(0)
    return SquaredMean(UNet()).train(), (torch.randn(4, 3, 64, 64),)


def large_head() -> Case:
    """Return S15: a language model whose head is its peak."""
    torch.manual_seed(0)
    return LargeHead().train(), (torch.randint(0, 8000, (4, 128)),)


CASES: dict[str, Factory] = {
    "S01": noisy_dropout,
    "S02": batch_norm,
    "S03": in_place,
    "S05": tied_and_shared,
    "S06": frozen_prefix,
    "S07": llama_stack,
    "S08": traversed_twice,
    "S09": thin_with_one_wide_layer,
    "S10": bias_free_stack,
    "S12": u_net,
    "S15": large_head,
}
"""The cases by the number they have in the project's notes and issues."""
