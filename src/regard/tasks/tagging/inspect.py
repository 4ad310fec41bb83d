"""Entities found by a tagger: as answers, as scores by seqeval, and as they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.core.data_specs import SpecialTokens
from regard.core.extras import require
from regard.core.inspectable import Axis, AxisRef, Inspectable, Item, Output, Token
from regard.core.protocols import Padded
from regard.core.state_tree import map_tensors
from regard.core.task import Prediction
from regard.data.text import tagged_corpus, tagged_files
from regard.data.text.tag_schemes import OUTSIDE, SEQEVAL_NAMES
from regard.data.text.tagged_corpus import EncodedSentence
from regard.data.text.tagged_files import Sentence
from regard.layers.document_batch import UnitBatch, add_bos_eos

NUM_ALTERNATIVES = 4  # tags that are named for each unit
SCHEME = SEQEVAL_NAMES["bio"]  # scores are computed on tags in this scheme
SEQEVAL_NOTE = f"by seqeval in strict mode, scheme {SCHEME}: an entity is right if its type and both its ends are"
SIGNATURES = {
    "f1": f"F1 of all entities together (micro), {SEQEVAL_NOTE}",
    "precision": f"share of the entities found that are right, {SEQEVAL_NOTE}",
    "recall": f"share of the true entities that are found, {SEQEVAL_NOTE}",
    "f1_macro": f"mean of the F1 of each type, {SEQEVAL_NOTE}",
    "accuracy": "share of units whose tag is right",
    "loss": "mean -log p of the true tags, in nats for each unit",
    "f1.TYPE": f"the same for the entities of one type, with its precision, recall and number (support), {SEQEVAL_NOTE}",
}


class TaggingResult(NamedTuple):
    """A text and what was found in it."""

    sentence: Sentence  # its units as the model has them, with the tags found
    score: float  # log p of the tags


def to_prediction(result: TaggingResult, remarks: tuple[str, ...] = ()) -> Prediction:
    """The text with its entities as <name:TYPE>; `value` has their places, and .conll is a line a unit."""
    spans = tagged_files.entity_spans(result.sentence)
    text, parts, end = result.sentence.text, list[str](), 0
    for start, stop, kind in spans:
        parts += [text[end:start], f"<{text[start:stop]}:{kind}>"]
        end = stop
    line = " ".join("".join([*parts, text[end:]]).split("\n"))
    entities = [{"text": text[start:stop], "type": kind, "start": start, "end": stop} for start, stop, kind in spans]
    return Prediction(
        line,
        result.score,
        result.score,
        value=spans,
        files={".conll": lambda: to_conll(result.sentence)},
        remarks=remarks,
        data={"entities": entities},
    )


def to_conll(sentence: Sentence) -> bytes:
    """A unit and its tag a line."""
    units = [sentence.text[start:stop] for start, stop in sentence.units]
    return "".join(f"{unit}\t{tag}\n" for unit, tag in zip(units, sentence.tags, strict=True)).encode()


def compute_metrics(references: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]) -> dict[str, float]:
    """True tags and those found, in BIO -> precision, recall and F1 of entities, and the share of right tags."""
    metrics, scheme = _seqeval()
    how: dict[str, Any] = {"mode": "strict", "scheme": scheme, "zero_division": 0}
    values = [[list(tags) for tags in side] for side in (references, predictions)]
    names = ("precision", "recall", "f1")
    some = any(tag != OUTSIDE for side in values for tags in side for tag in tags)  # without, seqeval has no mean
    results = [float(getattr(metrics, f"{name}_score")(*values, **how)) if some else 0.0 for name in names]
    macro = float(metrics.f1_score(*values, average="macro", **how)) if some else 0.0
    pairs = [pair for one, other in zip(references, predictions, strict=True) for pair in zip(one, other, strict=True)]
    return {
        **dict(zip(names, results, strict=True)),
        "f1_macro": macro,
        "accuracy": sum(one == other for one, other in pairs) / max(1, len(pairs)),
    }


def metrics_by_type(references: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]) -> dict[str, float]:
    """The same for each type of entity."""
    metrics, scheme = _seqeval()
    if all(tag == OUTSIDE for side in (references, predictions) for tags in side for tag in tags):
        return {}
    values = [[list(tags) for tags in side] for side in (references, predictions)]
    table = metrics.classification_report(*values, mode="strict", scheme=scheme, zero_division=0, output_dict=True)
    names = {"f1": "f1-score", "precision": "precision", "recall": "recall", "support": "support"}
    kinds = [kind for kind in table if not kind.endswith(" avg")]
    return {f"{name}.{kind}": float(table[kind][column]) for kind in kinds for name, column in names.items()}


def _seqeval() -> tuple[Any, Any]:
    return require("seqeval.metrics", extra="text"), getattr(require("seqeval.scheme", extra="text"), SCHEME)


@dataclass(frozen=True)
class Replay:
    """The model run again over a sentence."""

    model: Any
    units: UnitBatch

    def __call__(self) -> Tensor:
        """Logits (u v)."""
        logits: Tensor = self.model.readout(self.model(self.units))[0]
        return logits

    def ablate_tokens(self, num_special: int) -> Tensor:
        """Each token in turn replaced by the unknown one, its letters too -> (m u v); `before` marks change nothing."""
        length, rows = self.units.tokens.shape[1], list[Tensor]()
        for place in range(-num_special, length + num_special):
            tokens, letters = self.units.tokens.clone(), self.units.characters.clone()
            if 0 <= place < length:
                tokens[0, place] = SpecialTokens.unk
                letters[0, self.units.first_token_indices[0] == place] = 0
            rows.append(self.model.readout(self.model(self.units._replace(tokens=tokens, characters=letters)))[0])
        return torch.stack(rows)


def build_inspectable(
    model: Any,
    encoded: EncodedSentence,
    result: TaggingResult,
    tags: Sequence[str],
    *,
    token_name: Any,
    device: torch.device,
    seconds: float,
) -> Inspectable:
    """A sentence and its tags -> tokens with places in the raw text, tags with what else they might be."""
    batch = map_tensors(tagged_corpus.collate([encoded]), lambda x: x.to(device))
    features = model(batch.sentences)
    chosen = model.readout.best(features, batch.sentences.counts)[0]
    odds = model.readout.marginals(features, batch.sentences.counts)[0].clamp_min(1e-9).log()  # (u v)
    replay = Replay(model, batch.sentences)
    items = _items(encoded, token_name)
    units = tuple(
        Item(result.sentence.text[a:b], word=i, span=(a, b)) for i, (a, b) in enumerate(encoded.sentence.units)
    )
    first, last = (Item(token_name(mark), special=True) for mark in (SpecialTokens.bos, SpecialTokens.eos))
    alone = len(items) == len(units)
    axes = {
        "sentence": Axis(units if alone else items, "sentence", input="sentence"),
        "text": Axis((first, *(units if alone else items), last), "text", input="text"),
        "units": Axis(units, "units"),
    }
    best = odds.topk(min(NUM_ALTERNATIVES, odds.shape[1]), dim=1)
    tokens = tuple(
        Token(tags[tag], float(odds[i, tag]), tuple((tags[t], float(p)) for t, p in zip(*pair, strict=True)))
        for i, (tag, *pair) in enumerate(zip(chosen.tolist(), best.indices.tolist(), best.values.tolist(), strict=True))
    )
    whole = add_bos_eos(Padded(batch.sentences.tokens, batch.sentences.lengths), SpecialTokens())
    places: dict[str, tuple[AxisRef, ...]] = {"sentence": (AxisRef("sentence"),), "text": (AxisRef("text"),)}
    return Inspectable(
        title=" ".join(result.sentence.text.split()),
        axes=axes,
        query_axes=places,
        key_axes=places,
        outputs=(Output(to_prediction(result).text, result.score, result.score, tokens),),
        replay=replay,
        predicted_ids=chosen,
        seconds=seconds,
        answer_axis="sentence" if alone else "units",
        ablations={"sentence": lambda: replay.ablate_tokens(0), "text": lambda: replay.ablate_tokens(1)},
        inputs={"sentence": batch.sentences.tokens, "text": whole.tokens},
        views=("entities",),
        extra={"entities": _extra(result, encoded, tags=[tags[tag] for tag in chosen.tolist()])},
    )


def _items(part: EncodedSentence, names: Any) -> tuple[Item, ...]:
    """The tokens of a sentence; each has the place of its unit."""
    edges = [*part.first_tokens, len(part.tokens)]
    return tuple(
        Item(names(token), word=unit, span=part.sentence.units[unit])
        for unit, (low, high) in enumerate(pairwise(edges))
        for token in part.tokens[low:high]
    )


def _extra(found: TaggingResult, part: EncodedSentence, *, tags: Sequence[str]) -> dict[str, Any]:
    spans = [
        {"start": start, "stop": stop, "type": kind} for start, stop, kind in tagged_files.entity_spans(found.sentence)
    ]
    return {"text": found.sentence.text, "entities": spans, "tags": list(tags), "firsts": part.first_tokens}
