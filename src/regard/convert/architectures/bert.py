"""BERT: a masked language model that normalises behind each part of a block. A row of segments that is alone there is
added to the places here."""

from __future__ import annotations

from typing import Any

import torch

from regard.convert.weight_map import Tensors, WeightMapping, check_supported, check_theirs_supported, same_layer
from regard.core.data_specs import MaskedLMSpec
from regard.core.errors import ConfigError
from regard.core.protocols.masked_lm import MaskedBatch
from regard.models.bert import Config

MODEL, TEMPLATE = "bert", "{start} $A {end}"
ATTENTION = {"q": "self.query", "k": "self.key", "v": "self.value", "o": "output.dense"}


def check(config: Config, sizes: MaskedLMSpec) -> None:
    """What BERT has: normalisation behind each part, learned places, layers of their own."""
    check_supported("BERT", config, {"norm": "post", "position": "learned", "share_layers": False, "width": config.dim})


def build_theirs(config: Config, sizes: MaskedLMSpec, library: Any) -> Any:
    """A BertForMaskedLM of the same shape; a BertForPreTraining where pairs of texts are told apart."""
    kind = library.BertForPreTraining if sizes.has_pairs else library.BertForMaskedLM
    return kind(library.BertConfig(**shape(config, sizes)))


def shape(config: Config, sizes: MaskedLMSpec) -> dict[str, Any]:
    """The settings that every BERT of theirs has."""
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
    """A model of BERT -> settings of model and data."""
    if not torch.equal(theirs.bert.embeddings.word_embeddings.weight, theirs.cls.predictions.decoder.weight):
        raise ConfigError("BERT with tables of its own for input and output: regard's bert has one for both")
    pairs = "next" if hasattr(theirs.cls, "seq_relationship") else "none"
    data = {"context": theirs.config.max_position_embeddings, "sentence_pairs": pairs}
    return {**settings("BERT", theirs.config), "norm": "post"}, data


def settings(name: str, config: Any) -> dict[str, Any]:
    """The settings that every BERT of ours has, from one of theirs."""
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
    """Which weights are which."""
    inner, head = "encoder.embedding", "cls.predictions"
    found = [WeightMapping((f"{inner}.table.weight",), "bert.embeddings.word_embeddings.weight")]
    found += [WeightMapping((f"{inner}.position.table.weight",), "bert.embeddings.position_embeddings.weight")]
    if config.segments:
        found += [WeightMapping((f"{inner}.segments.weight",), "bert.embeddings.token_type_embeddings.weight")]
    found += same_layer(f"{inner}.norm", "bert.embeddings.LayerNorm")
    for number in range(config.layers):
        found += _block(f"encoder.layers.{number}", f"bert.encoder.layer.{number}")
    found += same_layer("head.dense", f"{head}.transform.dense") + same_layer(
        "head.norm", f"{head}.transform.LayerNorm"
    )
    found += [WeightMapping(("readout.weight",), f"{head}.decoder.weight")]
    found += [WeightMapping(("readout.bias",), f"{head}.{name}") for name in ("bias", "decoder.bias")]
    if sizes.has_pairs:
        turned = lambda own: own[0].flip(0)  # noqa: E731  # an argument; there the first says that a text follows
        back = lambda other: [other.flip(0)]  # noqa: E731  # an argument
        found += same_layer("pooler.0", "bert.pooler.dense")
        found += [
            WeightMapping((f"pairs.{part}",), f"cls.seq_relationship.{part}", turned, back)
            for part in ("weight", "bias")
        ]
    return found


def _block(ours: str, theirs: str) -> list[WeightMapping]:
    found: list[WeightMapping] = []
    for name, other in ATTENTION.items():
        found += same_layer(f"{ours}.self_attn.{name}", f"{theirs}.attention.{other}")
    found += same_layer(f"{ours}.around_self.norm", f"{theirs}.attention.output.LayerNorm")
    found += same_layer(f"{ours}.feedforward.up", f"{theirs}.intermediate.dense")
    found += same_layer(f"{ours}.feedforward.down", f"{theirs}.output.dense")
    return found + same_layer(f"{ours}.around_feedforward.norm", f"{theirs}.output.LayerNorm")


def tables(sizes: MaskedLMSpec) -> dict[str, str]:
    """The weights that have a row for each token, and whose vocabulary that is."""
    return dict.fromkeys(("encoder.embedding.table.weight", "readout.weight", "readout.bias"), "text")


def difference(ours: Any, theirs: Any, sizes: MaskedLMSpec, ids: Any) -> float:
    """Of two texts, one of them padded, all of whose tokens are foretold."""
    text, lengths = torch.randint(sizes.special_tokens.first_regular_id, sizes.vocab_size, (2, 8)), torch.tensor([8, 5])
    seen = torch.arange(8) < lengths[:, None]
    nothing = torch.zeros_like(text)
    foretold = ours(MaskedBatch(text, text, lengths, seen, nothing, nothing))
    output = theirs(input_ids=ids("text", text), attention_mask=seen.long())
    logits = output.logits if hasattr(output, "logits") else output.prediction_logits
    real = torch.arange(sizes.special_tokens.first_regular_id, sizes.vocab_size)
    largest = float((ours.readout(foretold.features)[:, real] - logits[seen][:, ids("text", real)]).abs().max())
    if ours.pairs is None:
        return largest
    told = ours.pairs(foretold.first).flip(-1)
    return max(largest, float((told - output.seq_relationship_logits).abs().max()))


def their_class(library: Any) -> Any:
    """What reads such a folder: by the name of the class that it was saved by."""
    return _Reader(library)


class _Reader:
    def __init__(self, library: Any) -> None:
        self._library = library

    def from_pretrained(self, source: str, **how: Any) -> Any:
        """A model with its head for covered words, and that for pairs where it has one."""
        names = self._library.AutoConfig.from_pretrained(source).architectures or []
        kind = self._library.BertForPreTraining if "BertForPreTraining" in names else self._library.BertForMaskedLM
        return kind.from_pretrained(source, **how)


def finish(tensors: Tensors, theirs: Any) -> Tensors:
    """The one segment there is becomes a part of the places."""
    if theirs.config.type_vocab_size == 1:
        name = "encoder.embedding.position.table.weight"
        alone = theirs.bert.embeddings.token_type_embeddings.weight.detach()
        return tensors | {name: tensors[name] + alone}
    return tensors
