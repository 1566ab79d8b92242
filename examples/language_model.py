"""A small GPT-2 that learns to spell: Hugging Face's model, Python's own help texts.

`encamp trace examples.language_model:step -o graph.json.zst` traces its training step.
"""

from __future__ import annotations

from functools import cache
from pydoc_data.topics import topics
from typing import TypedDict

import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

BATCH = 4
LENGTH = 256
SEED = 0


class Batch(TypedDict):
    """The model's arguments: bytes of text, and the same as labels (it shifts them)."""

    input_ids: Tensor
    labels: Tensor


def model(*, layers: int = 6, width: int = 384) -> GPT2LMHeadModel:
    """Return the model in train mode, with random weights, and dropout as by default.

    Its words are bytes. Token ids lie inside the vocabulary and the loss is named, so
    that the library neither warns nor logs, which would break the step's graph.
    """
    torch.manual_seed(SEED)
    made: GPT2LMHeadModel = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=256,
            n_positions=LENGTH,
            n_layer=layers,
            n_embd=width,
            n_head=width // 64 or 1,
            bos_token_id=0,
            eos_token_id=0,
            use_cache=False,
        )
    )
    made.loss_type = "ForCausalLM"
    made.train()
    return made


def batches(number: int) -> list[Batch]:
    """Return batches of passages of the text, the same ones each time."""
    text = _text()
    generator = torch.Generator().manual_seed(SEED)
    starts = torch.randint(len(text) - LENGTH, (number, BATCH), generator=generator)
    passages = text[starts[..., None] + torch.arange(LENGTH)]
    # Cloned: a batch that is a view would keep all the others in memory.
    return [_batch(passage.clone()) for passage in passages]


def step(
    *, layers: int = 6, width: int = 384
) -> tuple[GPT2LMHeadModel, tuple[()], Batch]:
    """Return what a training step is made of: the model, no args, and a batch."""
    return model(layers=layers, width=width), (), batches(1)[0]


def _batch(passages: Tensor) -> Batch:
    return Batch(input_ids=passages, labels=passages)


@cache
def _text() -> Tensor:
    """Return Python's help on its own language, about 0.7 MB, as byte values."""
    text = "\n".join(topics.values()).encode()
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
