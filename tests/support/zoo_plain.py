"""Models of plain PyTorch for the zoo: recurrent, convolutional, dense, unrolled.

Each factory returns (model, args) in train mode, with the loss inside the model.
"""

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own abbreviation
from torch import Tensor, nn

Step = tuple[nn.Module, tuple[Tensor, ...]]


class Classified(nn.Module):
    """A model of images, or of sequences, under the cross entropy of its classes."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, classes: Tensor) -> Tensor:
        return F.cross_entropy(self.model(x), classes)


class Translated(nn.Module):
    """PyTorch's own encoder and decoder, over embeddings, with a causal target."""

    def __init__(self, words: int = 64, width: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.model = nn.Transformer(
            width, 4, 2, 2, 2 * width, dropout=0.1, batch_first=True
        )
        self.head = nn.Linear(width, words)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        x = self.model(
            self.embedding(source),
            self.embedding(target),
            tgt_mask=mask,
            tgt_is_causal=True,
        )
        return F.cross_entropy(self.head(x).flatten(0, 1), target.flatten())


class Remembered(nn.Module):
    """Two LSTM layers with dropout between them, classified by their last state."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, 32, num_layers=2, dropout=0.2, batch_first=True)
        self.head = nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        out, _ = self.lstm(x)
        return self.head(out[:, -1])


class Unrolled(nn.Module):
    """One gated cell applied 64 times in a Python loop."""

    def __init__(self, width: int = 16, steps: int = 64) -> None:
        super().__init__()
        self.steps = steps
        self.gate = nn.Linear(2 * width, width)
        self.candidate = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros_like(x)
        for _ in range(self.steps):
            both = torch.cat([x, state], -1)
            gate = torch.sigmoid(self.gate(both))
            state = gate * state + (1 - gate) * torch.tanh(self.candidate(both))
        return state


class DoubleConvolution(nn.Sequential):
    """Two convolutions with GroupNorm and SiLU, as U-Nets of diffusion have them."""

    def __init__(self, inlet: int, outlet: int) -> None:
        super().__init__(
            nn.Conv2d(inlet, outlet, 3, padding=1),
            nn.GroupNorm(4, outlet),
            nn.SiLU(),
            nn.Conv2d(outlet, outlet, 3, padding=1),
            nn.GroupNorm(4, outlet),
            nn.SiLU(),
        )


class UNet(nn.Module):
    """A U-Net: down by pooling, up by interpolation, its long skips concatenated."""

    def __init__(self, channels: int = 8, levels: int = 3) -> None:
        super().__init__()
        widths = [channels * 2**level for level in range(levels)]
        inlets = [3, *widths[:-1]]
        self.down = nn.ModuleList(map(DoubleConvolution, inlets, widths))
        self.middle = DoubleConvolution(widths[-1], widths[-1])
        outlets = [channels, *widths[:-1]]
        self.up = nn.ModuleList(
            DoubleConvolution(2 * width, outlet)
            for width, outlet in zip(widths, outlets, strict=True)
        )
        self.head = nn.Conv2d(channels, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        noisy, skips = x, []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for block, skip in zip(reversed(self.up), reversed(skips), strict=True):
            x = F.interpolate(x, scale_factor=2.0, mode="nearest")
            x = block(torch.cat([x, skip], 1))
        return F.mse_loss(self.head(x), noisy)


class Detected(nn.Module):
    """A detector of boxes after DETR: convolutions, a transformer, learnt queries.

    Which box a query answers for is given: matching them runs on the host, and so does
    a check for infinities in the model of Transformers, which therefore is refused.
    """

    def __init__(self, width: int = 32, queries: int = 8, classes: int = 5) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, width, 3, 2, 1),
        )
        self.places = nn.Parameter(torch.randn(64, width) * 0.1)
        self.queries = nn.Parameter(torch.randn(queries, width))
        self.model = nn.Transformer(width, 4, 2, 2, 2 * width, batch_first=True)
        self.classes = nn.Linear(width, classes)
        self.boxes = nn.Linear(width, 4)

    def forward(self, x: Tensor, classes: Tensor, boxes: Tensor) -> Tensor:
        seen = self.backbone(x).flatten(2).mT + self.places
        asked = self.queries.expand(len(x), -1, -1)
        found = self.model(seen, asked)
        named = F.cross_entropy(self.classes(found).mT, classes)
        return named + F.l1_loss(self.boxes(found).sigmoid(), boxes)


class DenseLayer(nn.Sequential):
    """A layer of a DenseNet: norm, bottleneck, norm, convolution."""

    def __init__(self, inlet: int, growth: int) -> None:
        super().__init__(
            nn.BatchNorm2d(inlet),
            nn.ReLU(),
            nn.Conv2d(inlet, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth),
            nn.ReLU(),
            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, super().forward(x)], 1)


def dense_net(growth: int = 4, layers: int = 4) -> nn.Module:
    """Return a DenseNet of two blocks with a transition between them."""
    parts: list[nn.Module] = [nn.Conv2d(3, 8, 3, padding=1)]
    width = 8
    for _ in range(2):
        parts += [DenseLayer(width + growth * i, growth) for i in range(layers)]
        width += growth * layers
        parts += [nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width // 2, 1)]
        parts += [nn.AvgPool2d(2)]
        width //= 2
    return nn.Sequential(
        *parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 4)
    )


def transformer() -> Step:
    """Return an nn.Transformer, two layers each way, dropout 0.1."""
    torch.manual_seed(0)
    words = torch.randint(64, (8, 24))
    return Translated().train(), (words, words[:, :16].contiguous())


def lstm() -> Step:
    """Return an LSTM of two layers over 16 steps."""
    torch.manual_seed(0)
    return Classified(Remembered()).train(), (torch.randn(64, 16, 16), _classes(64))


def unrolled() -> Step:
    """Return a gated cell unrolled 64 times."""
    torch.manual_seed(0)
    model = nn.Sequential(Unrolled(), nn.Linear(16, 4))
    return Classified(model).train(), (torch.randn(64, 16), _classes(64))


def unet() -> Step:
    """Return a U-Net with GroupNorm, three levels, 32 x 32 images."""
    torch.manual_seed(0)
    return UNet().train(), (torch.randn(4, 3, 32, 32),)


def detr() -> Step:
    """Return a detector after DETR, two layers each way, 32 x 32 images."""
    torch.manual_seed(0)
    classes = torch.arange(8).repeat(4, 1) % 5
    return Detected().train(), (torch.randn(4, 3, 32, 32), classes, torch.rand(4, 8, 4))


def densenet() -> Step:
    """Return a DenseNet, two blocks of four layers."""
    torch.manual_seed(0)
    model = Classified(dense_net())
    return model.train(), (torch.randn(8, 3, 16, 16), _classes(8))


def _classes(count: int) -> Tensor:
    return torch.arange(count) % 4
