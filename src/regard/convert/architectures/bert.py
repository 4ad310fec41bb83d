"""BERT: a post-norm masked language model. A single segment embedding is added to the position embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.convert.weight_map import Tensors, WeightMapping, check_supported, check_theirs_supported, same_layer
from regard.core.data_specs import MaskedLMSpec
from regard.core.errors import ConfigError
from regard.core.protocols.masked_lm import MaskedBatch
from regard.models.bert import Config

MODEL, TEMPLATE = "bert", "{start} $A {end}"
ATTENTION = {"q": "self.query", "k": "self.key", "v": "self.value", "o": "output.dense"}


def check(config: Config, sizes: MaskedLMSpec) -> None:
    """Check for post-norm, learned positions and unshared layers."""
    check_supported("BERT", config, {"norm": "post", "position": "learned", "share_layers": False, "width": config.dim})


def build_theirs(config: Config, sizes: MaskedLMSpec, library: Any) -> Any:
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
        "hidden_act": "gelu",
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "max_position_embeddings": sizes.max_length,
        "type_vocab_size": config.segments or 1,
        "layer_norm_eps": config.eps,
        "pad_token_id": sizes.special_tokens.pad,
    }


def settings_from_theirs(theirs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A transformers BERT -> settings of model and data."""
    if not torch.equal(theirs.bert.embeddings.word_embeddings.weight, theirs.cls.predictions.decoder.weight):
        raise ConfigError("BERT with separate input and output embeddings: the bert of regard ties them")
    pairs = "next" if hasattr(theirs.cls, "seq_relationship") else "none"
    data = {"context": theirs.config.max_position_embeddings, "sentence_pairs": pairs}
    return {**settings("BERT", theirs.config), "norm": "post"}, data


def settings(name: str, config: Any) -> dict[str, Any]:
    """Return the shared settings of a regard bert from a transformers configuration."""
    check_theirs_supported(name, config, {"hidden_act": "gelu", "type_vocab_size": (1, 2), "is_decoder": False})
    return {
        "layers": config.num_hidden_layers,
        "dim": config.hidden_size,
        "heads": config.num_attention_heads,
        "ffn_dim": config.intermediate_size,
        "segments": 2 if config.type_vocab_size == 2 else 0,
        "dropout": config.hidden_dropout_prob,
        "attention_dropout": config.attention_probs_dropout_prob,
        "eps": config.layer_norm_eps,
    }


def weight_mappings(config: Config, sizes: MaskedLMSpec) -> list[WeightMapping]:
    """Return the pairs of weights."""
    inner, head = "encoder.embedding", "cls.predictions"
    mappings = [WeightMapping((f"{inner}.table.weight",), "bert.embeddings.word_embeddings.weight")]
    mappings += [WeightMapping((f"{inner}.position.table.weight",), "bert.embeddings.position_embeddings.weight")]
    if config.segments:
        mappings += [WeightMapping((f"{inner}.segments.weight",), "bert.embeddings.token_type_embeddings.weight")]
    mappings += same_layer(f"{inner}.norm", "bert.embeddings.LayerNorm")
    for layer in range(config.layers):
        mappings += _block(f"encoder.layers.{layer}", f"bert.encoder.layer.{layer}")
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


def _block(ours: str, theirs: str) -> list[WeightMapping]:
    mappings: list[WeightMapping] = []
    for name, their_name in ATTENTION.items():
        mappings += same_layer(f"{ours}.self_attn.{name}", f"{theirs}.attention.{their_name}")
    mappings += same_layer(f"{ours}.around_self.norm", f"{theirs}.attention.output.LayerNorm")
    mappings += same_layer(f"{ours}.feedforward.up", f"{theirs}.intermediate.dense")
    mappings += same_layer(f"{ours}.feedforward.down", f"{theirs}.output.dense")
    return mappings + same_layer(f"{ours}.around_feedforward.norm", f"{theirs}.output.LayerNorm")


def tables(sizes: MaskedLMSpec) -> dict[str, str]:
    """Return the weights with a row per token, and their vocabulary."""
    return dict.fromkeys(("encoder.embedding.table.weight", "readout.weight", "readout.bias"), "text")


def difference(ours: Any, theirs: Any, sizes: MaskedLMSpec, ids: Any) -> float:
    """Compare logits for all tokens of two texts, one of them padded."""
    text, lengths = torch.randint(sizes.special_tokens.first_regular_id, sizes.vocab_size, (2, 8)), torch.tensor([8, 5])
    visible = torch.arange(8) < lengths[:, None]
    zeros = torch.zeros_like(text)
    output_ours = ours(MaskedBatch(text, text, lengths, visible, zeros, zeros))
    output = theirs(input_ids=ids("text", text), attention_mask=visible.long())
    logits = output.logits if hasattr(output, "logits") else output.prediction_logits
    real = torch.arange(sizes.special_tokens.first_regular_id, sizes.vocab_size)
    largest = float((ours.readout(output_ours.features)[:, real] - logits[visible][:, ids("text", real)]).abs().max())
    if ours.pairs is None:
        return largest
    pair_logits = ours.pairs(output_ours.cls_features).flip(-1)
    return max(largest, float((pair_logits - output.seq_relationship_logits).abs().max()))


def their_class(library: Any) -> Any:
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


def finish(tensors: Tensors, theirs: Any) -> Tensors:
    """Add a single segment embedding to the position embeddings."""
    if theirs.config.type_vocab_size == 1:
        name = "encoder.embedding.position.table.weight"
        segment = theirs.bert.embeddings.token_type_embeddings.weight.detach()
        return tensors | {name: tensors[name] + segment}
    return tensors
