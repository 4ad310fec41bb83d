"""XLNet: two streams over a prediction order. Only import is supported: transformers has no pipeline that fills masks
with an XLNet."""

from __future__ import annotations

from typing import Any

import torch

from regard.convert import usage_example
from regard.convert.weight_map import Tensors, WeightMapping, check_huggingface_supported, reshaped, same_layer
from regard.core.data_specs import MaskedLMSpec
from regard.core.errors import ConfigError
from regard.core.protocols.masked_lm import MaskedBatch
from regard.models.xlnet import Config

MODEL, TEMPLATE = "xlnet", "{start} $A {end}"
ARCHITECTURES = ("XLNetLMHeadModel",)
USAGE = usage_example.fill_masks
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh", "silu": "silu"}
DEFAULT_CONTEXT = 512  # positions are relative, so that the model has no maximum length
BIASES = {"u": "r_w_bias", "v": "r_r_bias", "w": "r_s_bias", "segments": "seg_embed"}


def check(config: Config, sizes: MaskedLMSpec) -> None:
    """Refuse the export."""
    raise ConfigError("xlnet cannot be exported: transformers has no pipeline that fills masks with it")


def settings_from_huggingface(huggingface_model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """An XLNetLMHeadModel -> settings of model and data."""
    config = huggingface_model.config
    expected = {"attn_type": "bi", "bi_data": False, "clamp_len": -1, "untie_r": (True, None)}
    check_huggingface_supported("XLNet", config, {**expected, "ff_activation": tuple(ACTIVATIONS)})
    if not torch.equal(huggingface_model.transformer.word_embedding.weight, huggingface_model.lm_loss.weight):
        raise ConfigError("XLNet with separate input and output embeddings: the xlnet of regard ties them")
    model = {
        "layers": config.n_layer,
        "dim": config.d_model,
        "heads": config.n_head,
        "ffn_dim": config.d_inner,
        "dropout": config.dropout,
        "activation": ACTIVATIONS[config.ff_activation],
        "eps": config.layer_norm_eps,
    }
    return model, {"context": DEFAULT_CONTEXT, "sentence_pairs": "none"}


def weight_mappings(config: Config, sizes: MaskedLMSpec, huggingface_config: Any) -> list[WeightMapping]:
    """Return the pairs of weights. The projections of transformers have the axes (d h e)."""
    dim, heads = config.dim, config.heads
    cube, flat = (dim, heads, dim // heads), (dim, dim)
    mappings = [
        WeightMapping(("encoder.embedding.table.weight",), "transformer.word_embedding.weight"),
        reshaped("unseen", "transformer.mask_emb", (1, 1, dim), (dim,)),
        *same_layer("readout", "lm_loss"),
    ]
    for layer in range(config.layers):
        block, name = f"encoder.layers.{layer}", f"transformer.layer.{layer}"
        bias = f"{block}.self_attn.attend.weigh.place"
        projections = {f"{block}.self_attn.{part}.weight": part for part in "qkv"} | {f"{bias}.r.weight": "r"}
        for regard_name, part in projections.items():
            mappings += [
                WeightMapping(
                    (regard_name,),
                    f"{name}.rel_attn.{part}",
                    lambda tensors: tensors[0].mT.reshape(cube),
                    lambda tensor: [tensor.reshape(flat).mT],
                )
            ]
        mappings += [reshaped(f"{block}.self_attn.o.weight", f"{name}.rel_attn.o", cube, flat)]
        mappings += [WeightMapping((f"{bias}.{part}",), f"{name}.rel_attn.{BIASES[part]}") for part in BIASES]
        mappings += same_layer(f"{block}.around_self.norm", f"{name}.rel_attn.layer_norm")
        mappings += same_layer(f"{block}.feedforward.up", f"{name}.ff.layer_1")
        mappings += same_layer(f"{block}.feedforward.down", f"{name}.ff.layer_2")
        mappings += same_layer(f"{block}.around_feedforward.norm", f"{name}.ff.layer_norm")
    return mappings


def tables(sizes: MaskedLMSpec) -> dict[str, str]:
    """Return the weights with a row per token, and their vocabulary."""
    return dict.fromkeys(("encoder.embedding.table.weight", "readout.weight", "readout.bias"), "text")


def difference(regard_model: Any, huggingface_model: Any, sizes: MaskedLMSpec, ids: Any) -> float:
    """Compare logits for texts of two segments whose tokens are predicted in a random order, after visible ones."""
    b, t = 2, 8
    text = torch.randint(sizes.special_tokens.first_regular_id, sizes.vocab_size, (b, t))
    segments = (torch.arange(t) >= t // 2).long().expand(b, t)
    order = torch.stack([torch.randperm(t) for _ in range(b)]) - 2
    order = order.clamp_min(0)  # three tokens are visible to all
    output = regard_model(MaskedBatch(text, text, torch.full((b,), t), order > 0, order, segments))
    hidden = (order[:, None, :] >= order[:, :, None]) & (order[:, None, :] > 0)
    expected = huggingface_model(
        input_ids=ids("text", text),
        token_type_ids=segments,
        perm_mask=hidden.float(),
        target_mapping=torch.eye(t).expand(b, t, t),
    ).logits[order > 0]
    real = torch.arange(sizes.special_tokens.first_regular_id, sizes.vocab_size)
    return float((regard_model.readout(output.features)[:, real] - expected[:, ids("text", real)]).abs().max())


def huggingface_class(library: Any) -> Any:
    """Return the class that reads such a folder."""
    return library.XLNetLMHeadModel


def finish(tensors: Tensors, huggingface_model: Any) -> Tensors:
    """Return the weights unchanged."""
    return tensors
