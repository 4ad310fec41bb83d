"""Predictions of a tagger: the text with its entities marked, their spans, and a CoNLL file."""

from __future__ import annotations

from typing import NamedTuple

from regard.core.task import Prediction
from regard.data.text import tagged_files
from regard.data.text.tagged_files import Sentence


class TaggingResult(NamedTuple):
    """A sentence with its predicted tags."""

    sentence: Sentence  # units of the model, with the predicted tags
    score: float  # log p of the tags
    confidences: tuple[float, ...] = ()  # marginal probability of the tag of each unit, if computed
    num_parts: int = 1  # parts in which the sentence was read


def to_prediction(result: TaggingResult, remarks: tuple[str, ...] = ()) -> Prediction:
    """Return the text with entities as <name:TYPE>; `value` has their spans, and .conll has one unit per line.

    The confidence of an entity is the smallest marginal probability of the tags of its units.
    """
    spans = tagged_files.entity_spans(result.sentence)
    text, parts, end = result.sentence.text, list[str](), 0
    for start, stop, entity_type in spans:
        parts += [text[end:start], f"<{text[start:stop]}:{entity_type}>"]
        end = stop
    line = " ".join("".join([*parts, text[end:]]).split("\n"))
    entities = [
        {"text": text[start:stop], "type": entity_type, "start": start, "end": stop} | _confidence(result, start, stop)
        for start, stop, entity_type in spans
    ]
    return Prediction(
        line,
        result.score,
        result.score,
        value=spans,
        files={".conll": lambda: to_conll(result.sentence)},
        remarks=remarks,
        data={"entities": entities},
    )


def _confidence(result: TaggingResult, start: int, stop: int) -> dict[str, float]:
    units = zip(result.sentence.units, result.confidences, strict=False)
    values = [confidence for (low, high), confidence in units if low < stop and high > start]
    return {"confidence": min(values)} if values else {}


def to_conll(sentence: Sentence) -> bytes:
    """Return one line per unit: the unit, a tab and its tag."""
    units = [sentence.text[start:stop] for start, stop in sentence.units]
    return "".join(f"{unit}\t{tag}\n" for unit, tag in zip(units, sentence.tags, strict=True)).encode()
