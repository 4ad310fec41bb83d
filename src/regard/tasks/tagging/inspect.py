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
from regard.data.text.tag_schemes import NAMES, OUTSIDE
from regard.data.text.tagged_corpus import Encoded
from regard.data.text.tagged_files import Sentence
from regard.layers.document_batch import Units, marked

ALTERNATIVES = 4  # tags that are named for each unit
SCHEME = NAMES["bio"]  # scores are computed on tags in this scheme
HOW = f"by seqeval in strict mode, scheme {SCHEME}: an entity is right if its type and both its ends are"
SIGNATURES = {
    "f1": f"F1 of all entities together (micro), {HOW}",
    "precision": f"share of the entities found that are right, {HOW}",
    "recall": f"share of the true entities that are found, {HOW}",
    "f1_macro": f"mean of the F1 of each type, {HOW}",
    "accuracy": "share of units whose tag is right",
    "loss": "mean -log p of the true tags, in nats for each unit",
    "f1.TYPE": f"the same for the entities of one type, with its precision, recall and number (support), {HOW}",
}


class Found(NamedTuple):
    """A text and what was found in it."""

    sentence: Sentence  # its units as the model has them, with the tags found
    score: float  # log p of the tags


def answer(found: Found, remarks: tuple[str, ...] = ()) -> Prediction:
    """The text with its entities as <name:TYPE>; `value` has their places, and .conll is a line a unit."""
    spans = tagged_files.entities(found.sentence)
    text, parts, end = found.sentence.text, list[str](), 0
    for start, stop, kind in spans:
        parts += [text[end:start], f"<{text[start:stop]}:{kind}>"]
        end = stop
    line = " ".join("".join([*parts, text[end:]]).split("\n"))
    entities = [{"text": text[start:stop], "type": kind, "start": start, "end": stop} for start, stop, kind in spans]
    return Prediction(
        line,
        found.score,
        found.score,
        value=spans,
        files={".conll": lambda: conll(found.sentence)},
        remarks=remarks,
        data={"entities": entities},
    )


def conll(sentence: Sentence) -> bytes:
    """A unit and its tag a line."""
    units = [sentence.text[start:stop] for start, stop in sentence.units]
    return "".join(f"{unit}\t{tag}\n" for unit, tag in zip(units, sentence.tags, strict=True)).encode()


def scores(true: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> dict[str, float]:
    """True tags and those found, in BIO -> precision, recall and F1 of entities, and the share of right tags."""
    metrics, scheme = _seqeval()
    how: dict[str, Any] = {"mode": "strict", "scheme": scheme, "zero_division": 0}
    values = [[list(tags) for tags in side] for side in (true, found)]
    names = ("precision", "recall", "f1")
    some = any(tag != OUTSIDE for side in values for tags in side for tag in tags)  # without, seqeval has no mean
    results = [float(getattr(metrics, f"{name}_score")(*values, **how)) if some else 0.0 for name in names]
    macro = float(metrics.f1_score(*values, average="macro", **how)) if some else 0.0
    pairs = [pair for one, other in zip(true, found, strict=True) for pair in zip(one, other, strict=True)]
    return {
        **dict(zip(names, results, strict=True)),
        "f1_macro": macro,
        "accuracy": sum(one == other for one, other in pairs) / max(1, len(pairs)),
    }


def by_type(true: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> dict[str, float]:
    """The same for each type of entity."""
    metrics, scheme = _seqeval()
    if all(tag == OUTSIDE for side in (true, found) for tags in side for tag in tags):
        return {}
    values = [[list(tags) for tags in side] for side in (true, found)]
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
    given: Units

    def __call__(self) -> Tensor:
        """Logits (u v)."""
        logits: Tensor = self.model.readout(self.model(self.given))[0]
        return logits

    def without(self, before: int) -> Tensor:
        """Each token in turn replaced by the unknown one, its letters too -> (m u v); `before` marks change nothing."""
        length, rows = self.given.tokens.shape[1], list[Tensor]()
        for place in range(-before, length + before):
            tokens, letters = self.given.tokens.clone(), self.given.letters.clone()
            if 0 <= place < length:
                tokens[0, place] = SpecialTokens.unknown
                letters[0, self.given.firsts[0] == place] = 0
            rows.append(self.model.readout(self.model(self.given._replace(tokens=tokens, letters=letters)))[0])
        return torch.stack(rows)


def show(
    model: Any, part: Encoded, found: Found, tags: Sequence[str], *, names: Any, device: torch.device, seconds: float
) -> Inspectable:
    """A sentence and its tags -> tokens with places in the raw text, tags with what else they might be."""
    batch = map_tensors(tagged_corpus.batch([part]), lambda x: x.to(device))
    features = model(batch.sentences)
    chosen = model.readout.best(features, batch.sentences.counts)[0]
    odds = model.readout.marginals(features, batch.sentences.counts)[0].clamp_min(1e-9).log()  # (u v)
    replay = Replay(model, batch.sentences)
    items = _items(part, names)
    units = tuple(Item(found.sentence.text[a:b], word=i, span=(a, b)) for i, (a, b) in enumerate(part.sentence.units))
    first, last = (Item(names(mark), special=True) for mark in (SpecialTokens.start, SpecialTokens.end))
    alone = len(items) == len(units)
    axes = {
        "sentence": Axis(units if alone else items, "sentence", input="sentence"),
        "text": Axis((first, *(units if alone else items), last), "text", input="text"),
        "units": Axis(units, "units"),
    }
    best = odds.topk(min(ALTERNATIVES, odds.shape[1]), dim=1)
    tokens = tuple(
        Token(tags[tag], float(odds[i, tag]), tuple((tags[t], float(p)) for t, p in zip(*pair, strict=True)))
        for i, (tag, *pair) in enumerate(zip(chosen.tolist(), best.indices.tolist(), best.values.tolist(), strict=True))
    )
    whole = marked(Padded(batch.sentences.tokens, batch.sentences.lengths), SpecialTokens())
    places: dict[str, tuple[AxisRef, ...]] = {"sentence": (AxisRef("sentence"),), "text": (AxisRef("text"),)}
    return Inspectable(
        title=" ".join(found.sentence.text.split()),
        axes=axes,
        rows=places,
        columns=places,
        outputs=(Output(answer(found).text, found.score, found.score, tokens),),
        replay=replay,
        chosen=chosen,
        seconds=seconds,
        answered="sentence" if alone else "units",
        without={"sentence": lambda: replay.without(0), "text": lambda: replay.without(1)},
        inputs={"sentence": batch.sentences.tokens, "text": whole.tokens},
        views=("entities",),
        extra={"entities": _extra(found, part, tags=[tags[tag] for tag in chosen.tolist()])},
    )


def _items(part: Encoded, names: Any) -> tuple[Item, ...]:
    """The tokens of a sentence; each has the place of its unit."""
    edges = [*part.firsts, len(part.tokens)]
    return tuple(
        Item(names(token), word=unit, span=part.sentence.units[unit])
        for unit, (low, high) in enumerate(pairwise(edges))
        for token in part.tokens[low:high]
    )


def _extra(found: Found, part: Encoded, *, tags: Sequence[str]) -> dict[str, Any]:
    spans = [
        {"start": start, "stop": stop, "type": kind} for start, stop, kind in tagged_files.entities(found.sentence)
    ]
    return {"text": found.sentence.text, "entities": spans, "tags": list(tags), "firsts": part.firsts}
