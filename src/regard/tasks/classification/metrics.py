"""Classification metrics: accuracy, F1 of several labels, the confusion matrix, and attention on the evidence.

Attention on the evidence is computed if the words and the sentence that determine the label are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from regard.attention.record import AttentionMap, attention_modules, record
from regard.core.example_statistics import Rows, record_mean, record_statistics
from regard.core.inference_mode import eval_mode
from regard.core.state_tree import map_tensors
from regard.data import batching
from regard.data.builtin.reviews import Review
from regard.data.text import document_corpus
from regard.data.text.document_corpus import TokenizedDocument
from regard.data.text.tokenizer import Tokenizer
from regard.tasks.classification.inspect import locate_words, overlaps_any

MAX_CONFUSION_LABELS = 20  # maximum number of labels of a confusion matrix
SINGLE_LABEL_SIGNATURES = {
    "accuracy": "fraction of documents whose most likely label is the true one; an empty document counts as wrong",
    "loss": "mean -log p of the true label, in nats",
    "confusion": "confusion.A.B: documents with the true label A and the predicted label B",
    "f1.LABEL": "F1 of the documents of one label, with its precision, recall and count (support)",
    "calibration_error": "expected calibration error (Guo et al. 2017, equation 3), ten bins of equal width",
    "reliability": "reliability.B%: accuracy, mean confidence and count of the documents in the bin that ends at B",
    "temperature": "divisor of the logits with the lowest loss on the validation data (Guo et al. 2017, section 4.2)",
    "calibration_error_scaled": "calibration_error with that temperature",
}
MULTI_LABEL_SIGNATURES = {
    "f1": "micro F1 over all pairs of document and label; a label is predicted if its probability is at least 0.5",
    "f1_macro": "mean of the F1 of each label; a label that is neither true nor predicted anywhere counts as 0",
    "accuracy": "fraction of documents whose predicted labels are exactly the true ones",
    "loss": "mean over documents of -log p of all binary labels, summed, in nats",
}
EVIDENCE_SIGNATURES = {
    "deciding_words": "fraction of the label's attention on the evidence words, in their sentence if the model "
    "attends to sentences, else in the whole document; mean over the split",
    "deciding_sentence": "fraction of documents whose evidence sentence has the largest weight",
}


def compute_metrics(logits: Tensor, labels: Tensor, *, num_blank: int, multi_label: bool) -> dict[str, float]:
    """Logits (n v) and labels (n) or (n v) -> metrics; `num_blank` further documents are empty and count as wrong."""
    total = len(labels) + num_blank
    if not multi_label:
        is_correct = logits.argmax(dim=1) == labels
        record_mean("accuracy", is_correct.tolist() + [False] * num_blank)
        return {"accuracy": int(is_correct.sum()) / total, "loss": float(cross_entropy(logits, labels))}
    predicted, true = logits >= 0, labels == 1
    loss = binary_cross_entropy_with_logits(logits, labels.float(), reduction="sum") / len(labels)
    is_exact = (predicted == true).all(dim=1)
    record_mean("accuracy", is_exact.tolist() + [False] * num_blank)
    record_statistics("f1", torch.stack([x.sum(dim=1) for x in (predicted & true, predicted, true)], dim=1), _row_f1)
    hits, num_predicted, num_true = (x.sum(dim=0) for x in (predicted & true, predicted, true))
    return {
        "f1": _f1(hits.sum(), num_predicted.sum(), num_true.sum()),
        "f1_macro": sum(map(_f1, hits, num_predicted, num_true)) / len(hits),
        "accuracy": int(is_exact.sum()) / total,
        "loss": float(loss),
    }


def _row_f1(rows: Rows) -> float:
    """Hits, predicted and true labels of documents (n 3) -> micro F1."""
    hits, num_predicted, num_true = rows.sum(axis=0)
    return float(2 * hits / (num_predicted + num_true)) if num_predicted + num_true else 0.0


def _f1(hits: Tensor, num_predicted: Tensor, num_true: Tensor) -> float:
    total = int(num_predicted) + int(num_true)
    return 2 * int(hits) / total if total else 0.0


def confusion(logits: Tensor, labels: Tensor, names: Sequence[str], *, multi_label: bool) -> dict[str, float]:
    """Return the counts of predicted label B for true label A; with several labels, the hits and errors of each."""
    if len(names) > MAX_CONFUSION_LABELS:
        return {}
    if multi_label:
        predicted, true = logits >= 0, labels == 1
        kinds = {"right": predicted & true, "missed": true & ~predicted, "wrong": predicted & ~true}
        return {f"{kind}.{name}": float(x[:, i].sum()) for i, name in enumerate(names) for kind, x in kinds.items()}
    counts = torch.zeros(len(names), len(names))
    counts.index_put_((labels, logits.argmax(dim=1)), torch.ones(len(labels)), accumulate=True)
    return {
        f"confusion.{true_name}.{predicted_name}": float(counts[i, j])
        for i, true_name in enumerate(names)
        for j, predicted_name in enumerate(names)
    }


def metrics_by_label(logits: Tensor, labels: Tensor, names: Sequence[str]) -> dict[str, float]:
    """Logits (n v) and labels (n) -> F1, precision, recall and count (support) of each label."""
    if len(names) > MAX_CONFUSION_LABELS:
        return {}
    predicted, table = logits.argmax(dim=1), dict[str, float]()
    for index, name in enumerate(names):
        is_predicted, is_true = predicted == index, labels == index
        hits = (is_predicted & is_true).sum()
        table |= {
            f"f1.{name}": _f1(hits, is_predicted.sum(), is_true.sum()),
            f"precision.{name}": int(hits) / max(1, int(is_predicted.sum())),
            f"recall.{name}": int(hits) / max(1, int(is_true.sum())),
            f"support.{name}": float(is_true.sum()),
        }
    return table


def attention_on_evidence(
    model: Any, reviews: Sequence[Review], cuts: Sequence[TokenizedDocument], *, tokenizer: Tokenizer, budget: int
) -> dict[str, float]:
    """Built-in reviews -> the attention on their evidence; empty for a model whose label does not attend."""
    if not any(attend.queries == "label" for attend in attention_modules(model).values()):
        return {}
    values: dict[str, list[float]] = {}
    lengths = np.array([sum(map(len, cut.rows)) for cut in cuts])
    with eval_mode(model) as device:
        for indices in batching.batches_by_length(lengths, budget=budget):
            batch = document_corpus.collate_documents([cuts[i] for i in indices])
            with record(model) as maps:
                model(map_tensors(batch, lambda x: x.to(device)))
            by_keys = {attention.keys: attention for attention in maps.values() if attention.queries == "label"}
            first_rows = np.concatenate([[0], np.cumsum([len(cuts[i].rows) for i in indices])])
            for position, i in enumerate(indices.tolist()):
                shares = _document_shares(
                    by_keys, reviews[i], cuts[i], tokenizer, position=position, first_row=int(first_rows[position])
                )
                for name, value in shares.items():
                    values.setdefault(name, []).append(value)
    return {name: float(np.mean(document_values)) for name, document_values in values.items()}


def _document_shares(
    by_keys: dict[str, AttentionMap],
    review: Review,
    cut: TokenizedDocument,
    tokenizer: Tokenizer,
    *,
    position: int,
    first_row: int,
) -> dict[str, float]:
    """Return the attention on the evidence of one document of a batch, by its position and its first sentence."""
    words = locate_words(review.text, cut, tokenizer)
    evidence = [word for row in words for word in row if overlaps_any(word.item.span, review.evidence_words)]
    shares: dict[str, float] = {}
    if not evidence:
        return shares  # it was truncated
    row = evidence[0].row
    if "sentences" in by_keys:
        weights = _weights(by_keys["sentences"], position, len(cut.rows))
        shares["deciding_sentence"] = float(int(weights.argmax()) == row)
    if "words" in by_keys:
        weights = _weights(by_keys["words"], first_row + row, len(cut.rows[row]))
        shares["deciding_words"] = float(weights[[word.column for word in evidence]].sum())
    for name, num_special in (("document", 0), ("text", 1)):
        if name in by_keys:
            weights = _weights(by_keys[name], position, None)
            columns = [num_special + word.item.word for word in evidence if word.item.word is not None]
            shares["deciding_words"] = float(weights[columns].sum())
    return shares


def _weights(attention: AttentionMap, batch_index: int, length: int | None) -> Tensor:
    """Return the weights (s) of one row of the batch, heads averaged."""
    weights: Tensor = torch.mean(attention.weights[batch_index, :, 0], dim=0)
    return weights[:length]
