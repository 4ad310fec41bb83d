"""Entity metrics by seqeval in strict mode: precision, recall and F1, in total and by entity type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.core.example_statistics import Rows, is_collecting, record_mean, record_statistics
from regard.core.extras import require
from regard.data.text.tag_schemes import OUTSIDE, SEQEVAL_NAMES, tags_to_entities

Tags = Sequence[Sequence[str]]  # BIO tags of the units of each sentence
SCHEME = SEQEVAL_NAMES["bio"]  # metrics are computed on tags in this scheme
SEQEVAL_NOTE = f"by seqeval in strict mode, scheme {SCHEME}: an entity is correct if its type and both its ends are"
SIGNATURES = {
    "f1": f"micro F1 of all entities, {SEQEVAL_NOTE}",
    "precision": f"fraction of the predicted entities that are correct, {SEQEVAL_NOTE}",
    "recall": f"fraction of the true entities that are predicted, {SEQEVAL_NOTE}",
    "f1_macro": f"mean of the F1 of each type, {SEQEVAL_NOTE}",
    "accuracy": "fraction of units whose tag is correct",
    "loss": "mean -log p of the true tags, in nats per unit",
    "f1_new_templates": "f1 on built-in sentences whose templates are not in the training data",
    "f1.TYPE": f"F1 of the entities of one type, with its precision, recall and count (support), {SEQEVAL_NOTE}",
}
REPORT_COLUMNS = {"f1": "f1-score", "precision": "precision", "recall": "recall", "support": "support"}


def compute_metrics(references: Tags, predictions: Tags) -> dict[str, float]:
    """True and predicted tags in BIO -> precision, recall and F1 of entities, and the accuracy of tags."""
    seqeval_metrics, scheme = _seqeval()
    settings: dict[str, Any] = {"mode": "strict", "scheme": scheme, "zero_division": 0}
    sides = [[list(tags) for tags in side] for side in (references, predictions)]
    has_entities = _has_entities(references, predictions)  # seqeval cannot average over no entities
    scores = {
        name: float(getattr(seqeval_metrics, f"{name}_score")(*sides, **settings)) if has_entities else 0.0
        for name in ("precision", "recall", "f1")
    }
    macro = float(seqeval_metrics.f1_score(*sides, average="macro", **settings)) if has_entities else 0.0
    pairs = [
        pair
        for true_tags, predicted_tags in zip(references, predictions, strict=True)
        for pair in zip(true_tags, predicted_tags, strict=True)
    ]
    _record(references, predictions)
    accuracy = sum(true_tag == predicted_tag for true_tag, predicted_tag in pairs) / max(1, len(pairs))
    return {**scores, "f1_macro": macro, "accuracy": accuracy}


def _record(references: Tags, predictions: Tags) -> None:
    """Record the numbers of correct, predicted and true entities of each sentence, and of correct tags."""
    if not is_collecting():
        return
    sides = [[set(tags_to_entities(tags, "bio")) for tags in side] for side in (references, predictions)]
    rows = [(len(true & predicted), len(predicted), len(true)) for true, predicted in zip(*sides, strict=True)]
    record_statistics("f1", rows, _row_f1)
    pairs = list(zip(references, predictions, strict=True))
    hits = [sum(map(str.__eq__, true_tags, predicted_tags)) for true_tags, predicted_tags in pairs]
    record_mean("accuracy", hits, weights=[len(true_tags) for true_tags, _ in pairs])


def _row_f1(rows: Rows) -> float:
    """Correct, predicted and true entities of sentences (n 3) -> micro F1."""
    hits, num_predicted, num_true = rows.sum(axis=0)
    return float(2 * hits / (num_predicted + num_true)) if num_predicted + num_true else 0.0


def metrics_by_type(references: Tags, predictions: Tags) -> dict[str, float]:
    """True and predicted tags in BIO -> F1, precision, recall and support of each entity type."""
    seqeval_metrics, scheme = _seqeval()
    if not _has_entities(references, predictions):
        return {}
    sides = [[list(tags) for tags in side] for side in (references, predictions)]
    report = seqeval_metrics.classification_report(
        *sides, mode="strict", scheme=scheme, zero_division=0, output_dict=True
    )
    types = [name for name in report if not name.endswith(" avg")]
    return {
        f"{name}.{entity_type}": float(report[entity_type][column])
        for entity_type in types
        for name, column in REPORT_COLUMNS.items()
    }


def _has_entities(references: Tags, predictions: Tags) -> bool:
    return any(tag != OUTSIDE for side in (references, predictions) for tags in side for tag in tags)


def _seqeval() -> tuple[Any, Any]:
    return require("seqeval.metrics", extra="text"), getattr(require("seqeval.scheme", extra="text"), SCHEME)
