"""Models with blocks that can be checkpointed by hand, as their users do."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.registry import Case, add_case

Blocks = Callable[..., Any]


def gpt(*, checkpointed: bool = False, layers: int = 6, width: int = 256) -> Any:  # noqa: ANN401
    """Return a GPT of pre-norm blocks over 4 x 256 tokens."""
    import torch  # noqa: PLC0415 - only what is measured loads it

    from benchmarks import models  # noqa: PLC0415

    torch.manual_seed(0)
    blocks = [models.GptBlock(width, 4) for _ in range(layers)]
    words = torch.randint(256, (4, 256))
    model = models.Language(blocks, width, checkpointed=checkpointed)
    return model.train(), (words,)


def llama(*, checkpointed: bool = False, layers: int = 6, width: int = 256) -> Any:  # noqa: ANN401
    """Return a Llama: RMSNorm, rotary positions, a gated MLP, over 4 x 256 tokens."""
    import torch  # noqa: PLC0415

    from benchmarks import models  # noqa: PLC0415

    torch.manual_seed(0)
    blocks = [models.LlamaBlock(width, 4) for _ in range(layers)]
    words = torch.randint(256, (4, 256))
    model = models.Language(blocks, width, checkpointed=checkpointed)
    return model.train(), (words,)


def resnet(*, checkpointed: bool = False, depths: Sequence[int] = (3, 4, 6, 3)) -> Any:  # noqa: ANN401
    """Return ResNet-50 at a quarter of its width, over 8 images of 64 x 64."""
    import torch  # noqa: PLC0415

    from benchmarks import models  # noqa: PLC0415

    torch.manual_seed(0)
    model = models.ResNet(depths, width=16, checkpointed=checkpointed)
    return model.train(), (torch.randn(8, 3, 64, 64), torch.arange(8))


def unet(*, checkpointed: bool = False, levels: int = 4) -> Any:  # noqa: ANN401
    """Return a U-Net with GroupNorm, over 4 images of 64 x 64."""
    import torch  # noqa: PLC0415

    from benchmarks import models  # noqa: PLC0415

    torch.manual_seed(0)
    model = models.UNet(16, levels, checkpointed=checkpointed)
    return model.train(), (torch.randn(4, 3, 64, 64),)


for _name, _what, _make in (
    ("GPT-2-like", "6 layers, width 256, batch 4 x 256", gpt),
    ("Llama-like", "6 layers, width 256, batch 4 x 256", llama),
    ("ResNet-50", "a quarter of its width, batch 8 x 64 x 64", resnet),
    ("U-Net", "GroupNorm, 4 levels, batch 4 x 64 x 64", unet),
):
    add_case(Case(f"frontier of {_name}", _what, ("frontier",), _make))

add_case(
    Case(
        "frontier of a small GPT",
        "2 layers, width 32",
        ("frontier",),
        functools.partial(gpt, layers=2, width=32),
        quick=True,
        full=False,
    )
)
