"""Models whose blocks `torch.utils.checkpoint` may run again, for the frontier."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own abbreviation
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class Blocks(nn.ModuleList):
    """Blocks run one after another, each checkpointed if so asked."""

    def __init__(self, blocks: Iterable[nn.Module], *, checkpointed: bool) -> None:
        """Take the blocks in order."""
        super().__init__(blocks)
        self.checkpointed = checkpointed

    def run(self, block: nn.Module, x: Tensor) -> Tensor:
        """Run one of the blocks."""
        if not self.checkpointed:
            return block(x)  # type: ignore[no-any-return]
        return checkpoint(block, x, use_reentrant=False)  # type: ignore[no-any-return]


def _heads(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


class GptBlock(nn.Module):
    """Attention and an MLP behind LayerNorm."""

    def __init__(self, width: int, heads: int) -> None:
        """Make the layers."""
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the residual stream behind the block."""
        q, k, v = (_heads(t, self.heads) for t in self.qkv(self.before(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.between(x))))


class LlamaBlock(nn.Module):
    """Attention with rotary positions and a gated MLP behind RMSNorm."""

    def __init__(self, width: int, heads: int) -> None:
        """Make the layers."""
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, 3 * width, bias=False)
        self.up = nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the residual stream behind the block."""
        q, k, v = (_heads(t, self.heads) for t in self.qkv(self.before(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(
            _turned(q), _turned(k), v, is_causal=True
        )
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        y = self.between(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def _turned(x: Tensor) -> Tensor:
    """Turn pairs of features by angles that grow with the position."""
    length, width = x.shape[-2:]
    rates = 10_000.0 ** -(torch.arange(width // 2, dtype=x.dtype) / (width // 2))
    angles = torch.arange(length, dtype=x.dtype)[:, None] * rates
    left, right = x.chunk(2, -1)
    cosine, sine = angles.cos(), angles.sin()
    return torch.cat([left * cosine - right * sine, right * cosine + left * sine], -1)


class Language(nn.Module):
    """Blocks between an embedding and a head, under the loss of the next word."""

    def __init__(
        self, blocks: Iterable[nn.Module], width: int, *, checkpointed: bool
    ) -> None:
        """Make the rest of the model for 256 words."""
        super().__init__()
        self.embedding = nn.Embedding(256, width)
        self.blocks = Blocks(blocks, checkpointed=checkpointed)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256, bias=False)

    def forward(self, words: Tensor) -> Tensor:
        """Return the loss."""
        x = self.embedding(words)
        for block in self.blocks:
            x = self.blocks.run(block, x)
        found = self.head(self.norm(x))[:, :-1]
        return F.cross_entropy(found.flatten(0, 1), words[:, 1:].flatten())


class Bottleneck(nn.Module):
    """Three convolutions with BatchNorm and a skip."""

    def __init__(self, inlet: int, width: int, stride: int) -> None:
        """Make the layers."""
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inlet, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, 4 * width, 1, bias=False),
            nn.BatchNorm2d(4 * width),
        )
        self.skip: nn.Module = nn.Identity()
        if stride != 1 or inlet != 4 * width:
            convolution = nn.Conv2d(inlet, 4 * width, 1, stride, bias=False)
            self.skip = nn.Sequential(convolution, nn.BatchNorm2d(4 * width))

    def forward(self, x: Tensor) -> Tensor:
        """Return the features behind the block."""
        return F.relu(self.body(x) + self.skip(x))


class ResNet(nn.Module):
    """A ResNet of bottlenecks, under the loss of ten classes."""

    def __init__(
        self, depths: Sequence[int], width: int, *, checkpointed: bool
    ) -> None:
        """Make stages of as many blocks as `depths` says."""
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        made: list[nn.Module] = []
        inlet = width
        for stage, depth in enumerate(depths):
            for index in range(depth):
                stride = 2 if stage and not index else 1
                made.append(Bottleneck(inlet, width * 2**stage, stride))
                inlet = 4 * width * 2**stage
        self.blocks = Blocks(made, checkpointed=checkpointed)
        self.head = nn.Linear(inlet, 10)

    def forward(self, x: Tensor, classes: Tensor) -> Tensor:
        """Return the loss."""
        x = F.max_pool2d(self.stem(x), 3, 2, 1)
        for block in self.blocks:
            x = self.blocks.run(block, x)
        return F.cross_entropy(self.head(x.mean((2, 3))), classes)


class DoubleConvolution(nn.Sequential):
    """Two convolutions with GroupNorm and SiLU."""

    def __init__(self, inlet: int, outlet: int) -> None:
        """Make the layers."""
        super().__init__(
            nn.Conv2d(inlet, outlet, 3, padding=1),
            nn.GroupNorm(4, outlet),
            nn.SiLU(),
            nn.Conv2d(outlet, outlet, 3, padding=1),
            nn.GroupNorm(4, outlet),
            nn.SiLU(),
        )


class UNet(nn.Module):
    """A U-Net: down by pooling, up by interpolation, its skips concatenated."""

    def __init__(self, channels: int, levels: int, *, checkpointed: bool) -> None:
        """Make blocks of twice as many channels at each level down."""
        super().__init__()
        widths = [channels * 2**level for level in range(levels)]
        self.down = Blocks(
            map(DoubleConvolution, [3, *widths[:-1]], widths), checkpointed=checkpointed
        )
        self.middle = DoubleConvolution(widths[-1], widths[-1])
        pairs = zip(widths, [channels, *widths[:-1]], strict=True)
        self.up = Blocks(
            (DoubleConvolution(2 * width, outlet) for width, outlet in pairs),
            checkpointed=checkpointed,
        )
        self.head = nn.Conv2d(channels, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the loss of giving its input back."""
        given, skips = x, []
        for block in self.down:
            x = self.down.run(block, x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for block, skip in zip(reversed(self.up), reversed(skips), strict=True):
            x = F.interpolate(x, scale_factor=2.0, mode="nearest")
            x = self.up.run(block, torch.cat([x, skip], 1))
        return F.mse_loss(self.head(x), given)
