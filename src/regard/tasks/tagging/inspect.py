"""Inspection of a tagged sentence: its tokens and units, the alternatives of each tag, and replays of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.inspectable import Axis, AxisRef, Inspectable, Item, Output, Token
from regard.core.protocols import Padded
from regard.core.state_tree import map_tensors
from regard.data.text import tagged_corpus, tagged_files
from regard.data.text.tagged_corpus import EncodedSentence
from regard.layers.crf import TagReadout
from regard.layers.document_batch import UnitBatch, add_bos_eos
from regard.tasks.tagging.prediction import TaggingResult, to_prediction

NUM_ALTERNATIVES = 4  # most likely tags listed for each unit
MIN_PROBABILITY = 1e-9  # smaller marginals are clamped before the log


class TaggingModel(Protocol):
    """A tagger: a batch of sentences -> features of their units (b u d), and a readout over tag sequences."""

    training: bool  # of nn.Module: whether it is in training mode

    @property
    def readout(self) -> TagReadout: ...

    def __call__(self, sentences: UnitBatch) -> Tensor: ...


class TaggedText(NamedTuple):
    """A sentence as the model reads it, its result, and the duration of the prediction."""

    encoded: EncodedSentence
    result: TaggingResult
    seconds: float
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Replay:
    """Runs the model again over a sentence."""

    model: TaggingModel
    units: UnitBatch

    def __call__(self) -> Tensor:
        """Return logits (u v)."""
        logits: Tensor = self.model.readout(self.model(self.units))[0]
        return logits

    def ablate_tokens(self, num_special: int) -> Tensor:
        """Return logits (m u v) with each token in turn, and its characters, replaced by the unknown token.

        The `num_special` special tokens on each side of the sentence change nothing.
        """
        length, rows = self.units.tokens.shape[1], list[Tensor]()
        for position in range(-num_special, length + num_special):
            tokens, characters = self.units.tokens.clone(), self.units.characters.clone()
            if 0 <= position < length:
                tokens[0, position] = SpecialTokens.unk
                characters[0, self.units.first_token_indices[0] == position] = 0
            rows.append(self.model.readout(self.model(self.units._replace(tokens=tokens, characters=characters)))[0])
        return torch.stack(rows)


def build_inspectable(
    model: TaggingModel,
    tagged: TaggedText,
    tags: Sequence[str],
    *,
    token_name: Callable[[int], str],
    device: torch.device,
) -> Inspectable:
    """A sentence and its tags -> tokens with spans in the raw text, tags with alternatives, and replays."""
    encoded, result = tagged.encoded, tagged.result
    batch = map_tensors(tagged_corpus.collate([encoded]), lambda x: x.to(device))
    features = model(batch.sentences)
    predicted = model.readout.decode(features, batch.sentences.counts)[0]
    marginals = model.readout.marginals(features, batch.sentences.counts)[0]  # (u v)
    replay = Replay(model, batch.sentences)
    units = tuple(
        Item(result.sentence.text[start:stop], word=i, span=(start, stop))
        for i, (start, stop) in enumerate(encoded.sentence.units)
    )
    token_items = _items(encoded, token_name, [unit.text for unit in units])
    one_token_each = len(token_items) == len(units)
    items = units if one_token_each else token_items
    bos, eos = (Item(token_name(token), special=True) for token in (SpecialTokens.bos, SpecialTokens.eos))
    with_special = add_bos_eos(Padded(batch.sentences.tokens, batch.sentences.lengths), SpecialTokens())
    references: dict[str, tuple[AxisRef, ...]] = {"sentence": (AxisRef("sentence"),), "text": (AxisRef("text"),)}
    output_tokens = _tags_with_alternatives(predicted.tolist(), marginals.clamp_min(MIN_PROBABILITY).log(), tags)
    return Inspectable(
        title=" ".join(result.sentence.text.split()),
        axes={
            "sentence": Axis(items, "sentence", input="sentence"),
            "text": Axis((bos, *items, eos), "text", input="text"),
            "units": Axis(units, "units"),
        },
        query_axes=references,
        key_axes=references,
        outputs=(Output(to_prediction(result).text, result.score, result.score, output_tokens),),
        replay=replay,
        predicted_ids=predicted,
        seconds=tagged.seconds,
        answer_axis="sentence" if one_token_each else "units",
        ablations={"sentence": lambda: replay.ablate_tokens(0), "text": lambda: replay.ablate_tokens(1)},
        inputs={"sentence": batch.sentences.tokens, "text": with_special.tokens},
        views=("entities",),
        remarks=tagged.remarks,
        extra={
            "entities": _view_data(result, encoded, [tags[tag] for tag in predicted.tolist()])
            | {"types": sorted({tag.partition("-")[2] for tag in tags if "-" in tag})}
        },
    )


def _items(encoded: EncodedSentence, token_name: Callable[[int], str], unit_texts: Sequence[str]) -> tuple[Item, ...]:
    """Return the tokens of a sentence; each has the span of its unit. An unknown unit keeps its text."""
    edges = [*encoded.first_tokens, len(encoded.tokens)]
    return tuple(
        Item(
            unit_texts[unit] if token == SpecialTokens.unk and high - low == 1 else token_name(token),
            word=unit,
            span=encoded.sentence.units[unit],
        )
        for unit, (low, high) in enumerate(pairwise(edges))
        for token in encoded.tokens[low:high]
    )


def _tags_with_alternatives(predicted: Sequence[int], log_p: Tensor, tags: Sequence[str]) -> tuple[Token, ...]:
    """Predicted tags (u) and log marginals (u v) -> each tag with its log p and the most likely tags."""
    best = log_p.topk(min(NUM_ALTERNATIVES, log_p.shape[1]), dim=1)
    rows = zip(predicted, best.indices.tolist(), best.values.tolist(), strict=True)
    return tuple(
        Token(
            tags[tag],
            float(log_p[i, tag]),
            tuple((tags[candidate], float(value)) for candidate, value in zip(candidates, values, strict=True)),
        )
        for i, (tag, candidates, values) in enumerate(rows)
    )


def _view_data(result: TaggingResult, encoded: EncodedSentence, tags: Sequence[str]) -> dict[str, Any]:
    """Return JSON values for the page: the text, its entities and tags, and the first token of each unit."""
    entities = [
        {"start": start, "stop": stop, "type": entity_type}
        for start, stop, entity_type in tagged_files.entity_spans(result.sentence)
    ]
    return {"text": result.sentence.text, "entities": entities, "tags": list(tags), "firsts": encoded.first_tokens}
