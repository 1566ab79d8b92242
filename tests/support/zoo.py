"""A zoo of models as users train them: small, from a configuration, random weights.

`ZOO` has a factory each: it returns (model, args, kwargs) in train mode, the loss
inside of the step. Sizes are the least that keep a model's structure: two layers, a
few heads, some dozen tokens or pixels. Dropout is what the configuration has.
"""

from collections.abc import Callable
from typing import Any

import torch
import transformers as hf
from torch import Tensor

import zoo_plain as plain

Factory = Callable[[], tuple[Any, ...]]

ROWS, WORDS, LENGTH = 4, 64, 32
_TEXT = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
_NARROW = {
    "vocab_size": WORDS,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    **_TEXT,
}


def _made(
    model: Any, inputs: dict[str, Tensor], loss: str | None = None
) -> tuple[Any, ...]:
    """Return a step in train mode; `loss` names the loss, or a warning breaks it."""
    if loss is not None:
        model.loss_type = loss
    return model.train(), (), inputs


def _called(
    model: Any, inputs: dict[str, Tensor], loss: str | None = None
) -> tuple[Any, ...]:
    """Return a step whose model was called once: it then installs hooks of its own."""
    with torch.no_grad():
        model(**inputs)
    return _made(model, inputs, loss)


def _words(*shape: int) -> Tensor:
    return torch.randint(3, WORDS, shape or (ROWS, LENGTH))


def _causal(kind: str, config: Any) -> tuple[Any, ...]:
    torch.manual_seed(0)
    words = _words()
    config.use_cache = False
    model = getattr(hf, kind)(config)
    return _made(model, {"input_ids": words, "labels": words}, "ForCausalLM")


def gpt2() -> tuple[Any, ...]:
    """GPT-2."""
    config = hf.GPT2Config(
        vocab_size=WORDS, n_positions=64, n_embd=32, n_layer=2, n_head=4, **_TEXT
    )
    return _causal("GPT2LMHeadModel", config)


def llama() -> tuple[Any, ...]:
    """Llama, with grouped keys."""
    config = hf.LlamaConfig(num_key_value_heads=2, **_NARROW)
    return _causal("LlamaForCausalLM", config)


def qwen2() -> tuple[Any, ...]:
    """Qwen2, with tied embeddings."""
    config = hf.Qwen2Config(num_key_value_heads=2, tie_word_embeddings=True, **_NARROW)
    return _causal("Qwen2ForCausalLM", config)


def gemma() -> tuple[Any, ...]:
    """Gemma."""
    config = hf.GemmaConfig(num_key_value_heads=1, head_dim=8, **_NARROW)
    return _causal("GemmaForCausalLM", config)


def mixtral() -> tuple[Any, ...]:
    """Mixtral: four experts, two for each token, computed in one batch."""
    config = hf.MixtralConfig(
        num_key_value_heads=2,
        num_local_experts=4,
        experts_implementation="batched_mm",
        **_NARROW,
    )
    return _causal("MixtralForCausalLM", config)


def mamba() -> tuple[Any, ...]:
    """Mamba, its scan in Python."""
    torch.manual_seed(0)
    config = hf.MambaConfig(
        vocab_size=WORDS, hidden_size=32, state_size=8, num_hidden_layers=2, **_TEXT
    )
    config.use_cache = False
    words = _words(ROWS, 16)
    model = hf.MambaForCausalLM(config)
    return _made(model, {"input_ids": words, "labels": words}, "ForCausalLM")


def bert() -> tuple[Any, ...]:
    """BERT, masked language model."""
    torch.manual_seed(0)
    model = hf.BertForMaskedLM(hf.BertConfig(**_NARROW))
    words = _words()
    mask = torch.ones_like(words)
    return _made(model, {"input_ids": words, "attention_mask": mask, "labels": words})


def roberta() -> tuple[Any, ...]:
    """RoBERTa, masked language model."""
    torch.manual_seed(0)
    model = hf.RobertaForMaskedLM(hf.RobertaConfig(**_NARROW))
    words = _words()
    return _made(model, {"input_ids": words, "labels": words})


def t5() -> tuple[Any, ...]:
    """T5, with relative positions and tied embeddings."""
    torch.manual_seed(0)
    config = hf.T5Config(
        vocab_size=WORDS,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
        use_cache=False,
    )
    words = _words()
    return _made(
        hf.T5ForConditionalGeneration(config), {"input_ids": words, "labels": words}
    )


def bart() -> tuple[Any, ...]:
    """BART."""
    torch.manual_seed(0)
    config = hf.BartConfig(
        vocab_size=WORDS,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=64,
        use_cache=False,
        decoder_start_token_id=0,
        **_TEXT,
    )
    words = _words()
    return _made(
        hf.BartForConditionalGeneration(config), {"input_ids": words, "labels": words}
    )


def _pixels(size: int) -> Tensor:
    return torch.randn(ROWS, 3, size, size)


def _image(kind: str, config: Any, size: int = 32) -> tuple[Any, ...]:
    torch.manual_seed(0)
    config.num_labels = 4
    model = getattr(hf, kind)(config)
    inputs = {"pixel_values": _pixels(size), "labels": torch.arange(ROWS) % 4}
    return _made(model, inputs, "ForImageClassification")


def vit() -> tuple[Any, ...]:
    """ViT."""
    config = hf.ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=32,
        patch_size=8,
        problem_type="single_label_classification",
    )
    return _image("ViTForImageClassification", config)


def swin() -> tuple[Any, ...]:
    """Swin: shifted windows, dropped paths."""
    config = hf.SwinConfig(
        image_size=32,
        patch_size=4,
        embed_dim=16,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
        drop_path_rate=0.1,
    )
    return _image("SwinForImageClassification", config)


def convnext() -> tuple[Any, ...]:
    """ConvNeXt."""
    config = hf.ConvNextConfig(
        num_stages=2, depths=[2, 2], hidden_sizes=[16, 32], drop_path_rate=0.1
    )
    return _image("ConvNextForImageClassification", config)


def resnet() -> tuple[Any, ...]:
    """ResNet of bottlenecks, with BatchNorm."""
    config = hf.ResNetConfig(
        embedding_size=8, hidden_sizes=[16, 32], depths=[2, 2], layer_type="bottleneck"
    )
    return _image("ResNetForImageClassification", config)


def segformer() -> tuple[Any, ...]:
    """SegFormer, semantic segmentation."""
    torch.manual_seed(0)
    config = hf.SegformerConfig(
        num_encoder_blocks=2,
        depths=[1, 1],
        sr_ratios=[4, 2],
        hidden_sizes=[16, 32],
        patch_sizes=[7, 3],
        strides=[4, 2],
        num_attention_heads=[2, 4],
        mlp_ratios=[2, 2],
        decoder_hidden_size=16,
        num_labels=4,
    )
    model = hf.SegformerForSemanticSegmentation(config)
    labels = torch.randint(4, (ROWS, 32, 32))
    return _called(model, {"pixel_values": _pixels(32), "labels": labels})


def clip() -> tuple[Any, ...]:
    """CLIP, both towers and the contrastive loss."""
    torch.manual_seed(0)
    text = {**_NARROW, "projection_dim": 16}
    image = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "image_size": 32,
        "patch_size": 8,
        "projection_dim": 16,
    }
    config = hf.CLIPConfig(text_config=text, vision_config=image, projection_dim=16)
    words = _words(ROWS, 16)
    inputs = {"input_ids": words, "pixel_values": _pixels(32)}
    return hf.CLIPModel(config).train(), (), {**inputs, "return_loss": True}


def whisper() -> tuple[Any, ...]:
    """Whisper: audio in, text out."""
    torch.manual_seed(0)
    config = hf.WhisperConfig(
        vocab_size=WORDS,
        num_mel_bins=8,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_source_positions=32,
        max_target_positions=32,
        decoder_start_token_id=0,
        use_cache=False,
        **_TEXT,
    )
    inputs = {"input_features": torch.randn(ROWS, 8, 64), "labels": _words(ROWS, 16)}
    return _made(hf.WhisperForConditionalGeneration(config), inputs)


def wav2vec2() -> tuple[Any, ...]:
    """Wav2Vec2 as it is tuned: its convolutions frozen, its transformer classifies."""
    torch.manual_seed(0)
    config = hf.Wav2Vec2Config(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        conv_dim=[16, 16],
        conv_stride=[5, 4],
        conv_kernel=[10, 8],
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=4,
        mask_time_prob=0.0,
        layerdrop=0.0,
        num_labels=4,
        classifier_proj_size=16,
    )
    model = hf.Wav2Vec2ForSequenceClassification(config)
    model.freeze_feature_encoder()
    labels = torch.arange(ROWS) % 4
    return _called(model, {"input_values": torch.randn(ROWS, 800), "labels": labels})


def detr() -> tuple[Any, ...]:
    """DETR of Transformers, which cannot be one graph: not in the zoo."""
    torch.manual_seed(0)
    backbone = hf.ResNetConfig(
        embedding_size=8, hidden_sizes=[16, 32], depths=[1, 1], out_features=["stage2"]
    )
    config = hf.DetrConfig(
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        backbone_config=backbone,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        num_queries=8,
        num_labels=4,
    )
    return _made(hf.DetrForObjectDetection(config), {"pixel_values": _pixels(64)})


ZOO: dict[str, Factory] = {
    "GPT-2": gpt2,
    "Llama": llama,
    "Qwen2": qwen2,
    "Gemma": gemma,
    "Mixtral": mixtral,
    "BERT": bert,
    "RoBERTa": roberta,
    "T5": t5,
    "BART": bart,
    "ViT": vit,
    "Swin": swin,
    "ConvNeXt": convnext,
    "ResNet": resnet,
    "SegFormer": segformer,
    "CLIP": clip,
    "Whisper": whisper,
    "Wav2Vec2": wav2vec2,
    "Mamba": mamba,
    "DETR-like": plain.detr,
    "nn.Transformer": plain.transformer,
    "LSTM": plain.lstm,
    "U-Net": plain.unet,
    "DenseNet": plain.densenet,
    "64-step recurrence": plain.unrolled,
}
"""By name, 24 of them."""
