"""BERT: a post-norm masked language model. A single segment embedding is added to the position embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.convert import usage_example
from regard.convert.weight_map import Tensors, WeightMapping, check_huggingface_supported, check_supported, same_layer
from regard.core.data_specs import MaskedLMSpec
from regard.core.errors import ConfigError
from regard.core.protocols.masked_lm import MaskedBatch
from regard.models.bert import Config

MODEL, TEMPLATE = "bert", "{start} $A {end}"
ARCHITECTURES = ("BertForMaskedLM", "BertForPreTraining")
USAGE = usage_example.fill_masks
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "silu"}
ATTENTION = {"q": "self.query", "k": "self.key", "v": "self.value", "o": "output.dense"}


def check(config: Config, sizes: MaskedLMSpec) -> None:
    """Check for post-norm, learned positions and unshared layers."""
    check_supported(
        "BERT",
        config,
        {"norm": "post", "position": "learned", "score": "scaled_dot", "share_layers": False, "width": config.dim},
    )


def build_huggingface(config: Config, sizes: MaskedLMSpec, library: Any) -> Any:
    """Build a BertForMaskedLM, or a BertForPreTraining if the model classifies sentence pairs."""
    model_class = library.BertForPreTraining if sizes.has_pairs else library.BertForMaskedLM
    return model_class(library.BertConfig(**shape(config, sizes)))


def shape(config: Config, sizes: MaskedLMSpec) -> dict[str, Any]:
    """Return the shared settings of a transformers BERT."""
    return {
        "vocab_size": sizes.vocab_size,
        "hidden_size": config.dim,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "intermediate_size": config.ffn_dim,
        "hidden_act": ACTIVATIONS[config.activation],
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "max_position_embeddings": sizes.max_length,
        "type_vocab_size": config.segments or 1,
        "layer_norm_eps": config.eps,
        "pad_token_id": sizes.special_tokens.pad,
    }


def settings_from_huggingface(huggingface_model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A transformers BERT -> settings of model and data."""
    if not torch.equal(
        huggingface_model.bert.embeddings.word_embeddings.weight, huggingface_model.cls.predictions.decoder.weight
    ):
        raise ConfigError("BERT with separate input and output embeddings: the bert of regard ties them")
    pairs = "next" if hasattr(huggingface_model.cls, "seq_relationship") else "none"
    data = {"context": huggingface_model.config.max_position_embeddings, "sentence_pairs": pairs}
    return {**settings("BERT", huggingface_model.config), "norm": "post"}, data


def settings(name: str, config: Any) -> dict[str, Any]:
    """Return the shared settings of a regard bert from a transformers configuration."""
    activations = {huggingface_name: name for name, huggingface_name in ACTIVATIONS.items()}
    expected = {"hidden_act": tuple(activations), "type_vocab_size": (1, 2)}
    check_huggingface_supported(name, config, expected)
    if getattr(config, "is_decoder", False):
        raise ConfigError(f"{name} with is_decoder=True: regard supports encoders")
    return {
        "layers": config.num_hidden_layers,
        "dim": config.hidden_size,
        "heads": config.num_attention_heads,
        "ffn_dim": config.intermediate_size,
        "activation": activations[config.hidden_act],
        "segments": 2 if config.type_vocab_size == 2 else 0,
        "dropout": config.hidden_dropout_prob,
        "attention_dropout": config.attention_probs_dropout_prob,
        "eps": config.layer_norm_eps,
    }


def weight_mappings(config: Config, sizes: MaskedLMSpec, huggingface_config: Any) -> list[WeightMapping]:
    """Return the pairs of weights."""
    inner, head = "encoder.embedding", "cls.predictions"
    mappings = [WeightMapping((f"{inner}.table.weight",), "bert.embeddings.word_embeddings.weight")]
    mappings += [WeightMapping((f"{inner}.position.table.weight",), "bert.embeddings.position_embeddings.weight")]
    if config.segments:
        mappings += [WeightMapping((f"{inner}.segments.weight",), "bert.embeddings.token_type_embeddings.weight")]
    mappings += same_layer(f"{inner}.norm", "bert.embeddings.LayerNorm")
    for layer in range(config.layers):
        mappings += block_mappings(f"encoder.layers.{layer}", f"bert.encoder.layer.{layer}")
    mappings += same_layer("head.dense", f"{head}.transform.dense") + same_layer(
        "head.norm", f"{head}.transform.LayerNorm"
    )
    mappings += [WeightMapping(("readout.weight",), f"{head}.decoder.weight")]
    mappings += [WeightMapping(("readout.bias",), f"{head}.{name}") for name in ("bias", "decoder.bias")]
    if sizes.has_pairs:
        # in transformers class 0 means that the second text follows, here class 1 does
        flip: Callable[[Sequence[Tensor]], Tensor] = lambda tensors: tensors[0].flip(0)  # noqa: E731
        back: Callable[[Tensor], Sequence[Tensor]] = lambda tensor: [tensor.flip(0)]  # noqa: E731
        mappings += same_layer("pooler.0", "bert.pooler.dense")
        mappings += [
            WeightMapping((f"pairs.{part}",), f"cls.seq_relationship.{part}", flip, back) for part in ("weight", "bias")
        ]
    return mappings


def block_mappings(regard_name: str, huggingface_name: str) -> list[WeightMapping]:
    """Return the pairs of weights of a block."""
    mappings: list[WeightMapping] = []
    for name, huggingface_part in ATTENTION.items():
        mappings += same_layer(f"{regard_name}.self_attn.{name}", f"{huggingface_name}.attention.{huggingface_part}")
    mappings += same_layer(f"{regard_name}.around_self.norm", f"{huggingface_name}.attention.output.LayerNorm")
    mappings += same_layer(f"{regard_name}.feedforward.up", f"{huggingface_name}.intermediate.dense")
    mappings += same_layer(f"{regard_name}.feedforward.down", f"{huggingface_name}.output.dense")
    return mappings + same_layer(f"{regard_name}.around_feedforward.norm", f"{huggingface_name}.output.LayerNorm")


def tables(sizes: MaskedLMSpec) -> dict[str, str]:
    """Return the weights with a row per token, and their vocabulary."""
    return dict.fromkeys(("encoder.embedding.table.weight", "readout.weight", "readout.bias"), "text")


def difference(regard_model: Any, huggingface_model: Any, sizes: MaskedLMSpec, ids: Any) -> float:
    """Compare logits for all tokens of two texts, one of them padded."""
    text, lengths = torch.randint(sizes.special_tokens.first_regular_id, sizes.vocab_size, (2, 8)), torch.tensor([8, 5])
    visible = torch.arange(8) < lengths[:, None]
    zeros = torch.zeros_like(text)
    regard_output = regard_model(MaskedBatch(text, text, lengths, visible, zeros, zeros))
    output = huggingface_model(input_ids=ids("text", text), attention_mask=visible.long())
    logits = output.logits if hasattr(output, "logits") else output.prediction_logits
    real = torch.arange(sizes.special_tokens.first_regular_id, sizes.vocab_size)
    largest = float(
        (regard_model.readout(regard_output.features)[:, real] - logits[visible][:, ids("text", real)]).abs().max()
    )
    if regard_model.pairs is None:
        return largest
    pair_logits = regard_model.pairs(regard_output.cls_features).flip(-1)
    return max(largest, float((pair_logits - output.seq_relationship_logits).abs().max()))


def huggingface_class(library: Any) -> Any:
    """Return a reader that selects the class by which the folder was saved."""
    return _Reader(library)


class _Reader:
    def __init__(self, library: Any) -> None:
        self._library = library

    def from_pretrained(self, source: str, **options: Any) -> Any:
        """Load the masked-language head, and the sentence-pair head if there is one."""
        names = self._library.AutoConfig.from_pretrained(source).architectures or []
        model_class = (
            self._library.BertForPreTraining if "BertForPreTraining" in names else self._library.BertForMaskedLM
        )
        return model_class.from_pretrained(source, **options)


def finish(tensors: Tensors, huggingface_model: Any) -> Tensors:
    """Add a single segment embedding to the position embeddings."""
    return add_single_segment(tensors, huggingface_model, huggingface_model.bert)


def add_single_segment(tensors: Tensors, huggingface_model: Any, base: Any) -> Tensors:
    """Add the embedding of the only segment to the position embeddings; `base` is the model without its head."""
    if huggingface_model.config.type_vocab_size != 1:
        return tensors
    name = "encoder.embedding.position.table.weight"
    return tensors | {name: tensors[name] + base.embeddings.token_type_embeddings.weight.detach()}
