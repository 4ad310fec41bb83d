"""Hugging Face transformers: Marian, from a configuration."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from systems.pytorch_baseline import pad
from systems.workload import END, LENGTH, PAD, SHAPES, START, VOCABULARY, Rows


def model(name: str) -> Any:
    """Return a Marian model of this shape with random weights."""
    from transformers import MarianConfig, MarianMTModel

    shape = SHAPES[name]
    return MarianMTModel(
        MarianConfig(
            vocab_size=VOCABULARY,
            d_model=shape.dim,
            encoder_layers=shape.layers,
            decoder_layers=shape.layers,
            encoder_attention_heads=shape.heads,
            decoder_attention_heads=shape.heads,
            encoder_ffn_dim=shape.hidden,
            decoder_ffn_dim=shape.hidden,
            dropout=shape.dropout,
            attention_dropout=0.0,
            activation_dropout=0.0,
            activation_function="relu",
            scale_embedding=True,
            pad_token_id=PAD,
            bos_token_id=START,
            eos_token_id=END,
            decoder_start_token_id=START,
            forced_eos_token_id=None,
            max_position_embeddings=512,
            attn_implementation="sdpa",
        )
    )


def forward(net: Any) -> Any:
    """(source, target) -> logits."""

    def run(source: Tensor, target: Tensor) -> Tensor:
        return net(input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=target).logits

    return run


@torch.inference_mode()
def decode(net: Any, rows: Rows, *, width: int) -> int:
    """Decode with `generate` and its cache; every output has the same length."""
    source = pad(rows)
    options = {"num_beams": width, "do_sample": False, "min_new_tokens": LENGTH, "max_new_tokens": LENGTH}
    outputs = net.generate(input_ids=source, attention_mask=(source != PAD).long(), **options)
    if outputs.shape[1] != LENGTH + 1:
        raise SystemExit(f"Marian: outputs of {outputs.shape[1] - 1} tokens instead of {LENGTH}")
    return len(rows)
