"""Llama from its configuration: never allocated, only traced."""

from __future__ import annotations

from typing import Any

from benchmarks.registry import Case, add_case


def llama(*, layers: int = 32) -> tuple[Any, ...]:
    """Return Llama 7B in bfloat16, or its first layers, with a batch of 1 x 2048."""
    import torch  # noqa: PLC0415 - only the child that traces loads it
    from transformers import AutoModelForCausalLM, LlamaConfig  # noqa: PLC0415

    config = LlamaConfig(
        num_hidden_layers=layers,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=0,
        use_cache=False,
    )
    build: Any = AutoModelForCausalLM.from_config
    model = build(config, dtype=torch.bfloat16)
    model.loss_type = "ForCausalLM"
    words = torch.zeros(1, 2048, dtype=torch.long)
    return model.train(), (), {"input_ids": words, "labels": words}


def two_layers() -> tuple[Any, ...]:
    """Return two layers of it."""
    return llama(layers=2)


add_case(Case("llama-7b", "Llama 7B, bfloat16, batch 1 x 2048", ("capture",), llama))
add_case(
    Case(
        "llama-7b-2",
        "two layers of it",
        ("capture",),
        two_layers,
        quick=True,
        full=False,
    )
)
