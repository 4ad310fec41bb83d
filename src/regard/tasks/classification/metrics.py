"""Scores of labels: accuracy, F1 where a document may have several, the confusion matrix; and labels as answers.

How well attention finds what decides a document, where that is known: the deciding words, the deciding sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from regard.attention.record import AttentionMap, attention_modules, record
from regard.core.inference_mode import eval_mode
from regard.core.state_tree import map_tensors
from regard.core.task import Prediction
from regard.data import batching
from regard.data.builtin.reviews import Review
from regard.data.text import document_corpus
from regard.data.text.document_corpus import TokenizedDocument
from regard.data.text.tokenizer import Tokenizer
from regard.tasks.classification.inspect import locate_words, overlaps_any

MAX_CONFUSION_LABELS = 20  # labels up to which a confusion matrix is given
IMBALANCE_RATIO = 10  # labels are uneven if one is so many times as frequent as another
NO_LABEL = "none"  # what is said of a document that has no label
SINGLE_LABEL_SIGNATURES = {
    "accuracy": "share of documents whose likeliest label is the true one; an empty document counts as wrong",
    "loss": "mean -log p of the true label, in nats",
    "confusion": "confusion.A.B: documents labelled A of which the model says B",
}
MULTI_LABEL_SIGNATURES = {
    "f1": "F1 of all pairs of document and label together (micro), a label given where its probability is at least 0.5",
    "f1_macro": "mean of the F1 of each label; a label that is neither there nor given counts as 0",
    "accuracy": "share of documents whose labels are all right and complete",
    "loss": "mean over documents of the summed -log p of every label's yes or no, in nats",
}


def compute_metrics(logits: Tensor, labels: Tensor, *, num_blank: int, multi_label: bool) -> dict[str, float]:
    """Logits (n v) and labels (n) or (n v) -> scores; `blank` documents could not be read and count as wrong."""
    total = len(labels) + num_blank
    if not multi_label:
        right = int((logits.argmax(dim=1) == labels).sum())
        return {"accuracy": right / total, "loss": float(cross_entropy(logits, labels))}
    given = logits >= 0
    true = labels == 1
    loss = binary_cross_entropy_with_logits(logits, labels.float(), reduction="sum") / len(labels)
    whole = int((given == true).all(dim=1).sum())
    hits, claims, truths = (x.sum(dim=0) for x in (given & true, given, true))
    return {
        "f1": _f1(hits.sum(), claims.sum(), truths.sum()),
        "f1_macro": sum(map(_f1, hits, claims, truths)) / len(hits),
        "accuracy": whole / total,
        "loss": float(loss),
    }


def _f1(hits: Tensor, given: Tensor, true: Tensor) -> float:
    both = int(given) + int(true)
    return 2 * int(hits) / both if both else 0.0


def confusion(logits: Tensor, labels: Tensor, names: Sequence[str], *, multi_label: bool) -> dict[str, float]:
    """How often the model says B of documents labelled A; with several labels how often each is right and wrong."""
    if len(names) > MAX_CONFUSION_LABELS:
        return {}
    if multi_label:
        given, true = logits >= 0, labels == 1
        kinds = {"right": given & true, "missed": true & ~given, "wrong": given & ~true}
        return {f"{kind}.{name}": float(x[:, i].sum()) for i, name in enumerate(names) for kind, x in kinds.items()}
    counts = torch.zeros(len(names), len(names))
    counts.index_put_((labels, logits.argmax(dim=1)), torch.ones(len(labels)), accumulate=True)
    return {
        f"confusion.{true}.{said}": float(counts[i, j]) for i, true in enumerate(names) for j, said in enumerate(names)
    }


def to_predictions(
    logits: Tensor, names: Sequence[str], *, top: int, threshold: float | None, remarks: tuple[str, ...] = ()
) -> list[Prediction]:
    """Logits (v) -> the likeliest labels with their log p. With a threshold documents may have several labels: then the
    first answer names all that are probable, and `top` further labels stand behind it if more than one is asked for."""
    log_p = logits.log_softmax(dim=0) if threshold is None else torch.nn.functional.logsigmoid(logits)
    order = log_p.argsort(descending=True).tolist()
    best = [Prediction(names[i], float(log_p[i]), float(log_p[i]), value=i, remarks=remarks) for i in order[:top]]
    if threshold is None:
        return best
    given = log_p.exp() >= threshold
    score = float(torch.where(given, log_p, torch.nn.functional.logsigmoid(-logits)).sum())
    labels = [names[i] for i in order if given[i]]
    first = Prediction(
        ", ".join(labels) or NO_LABEL, score, score, value=order[0], remarks=remarks, data={"labels": labels}
    )
    return [first, *(best if top > 1 else [])]


def imbalance_warnings(counts: Counter[int], names: Sequence[str]) -> list[str]:
    """A note where labels are uneven, or where one is never seen."""
    if not counts:
        return []
    (most, large), (least, small) = counts.most_common()[0], counts.most_common()[-1]
    if large < IMBALANCE_RATIO * small:
        return []
    return [f"uneven labels: {large} training documents are {names[most]!r}, {small} are {names[least]!r}"]


EVIDENCE_SIGNATURES = {
    "deciding_words": "share of a label's attention that falls on the deciding words, in their sentence if the model "
    "looks at sentences, else in the whole document; mean over the split",
    "deciding_sentence": "share of documents whose deciding sentence has the greatest weight",
}


def attention_on_evidence(
    model: Any, reviews: Sequence[Review], cuts: Sequence[TokenizedDocument], *, tokenizer: Tokenizer, budget: int
) -> dict[str, float]:
    """Built-in reviews -> both shares, of what the model's attention looks at; empty where it looks at nothing."""
    if not any(attend.queries == "label" for attend in attention_modules(model).values()):
        return {}
    found: dict[str, list[float]] = {}
    lengths = np.array([sum(map(len, cut.rows)) for cut in cuts])
    with eval_mode(model) as device:
        for numbers in batching.batches_by_length(lengths, budget=budget):
            given = document_corpus.collate_documents([cuts[i] for i in numbers])
            with record(model) as maps:
                model(map_tensors(given, lambda x: x.to(device)))
            looks = {attention.keys: attention for attention in maps.values() if attention.queries == "label"}
            first = np.concatenate([[0], np.cumsum([len(cuts[i].rows) for i in numbers])])
            for place, i in enumerate(numbers.tolist()):
                for name, value in _of_document(
                    looks, reviews[i], cuts[i], tokenizer, (place, int(first[place]))
                ).items():
                    found.setdefault(name, []).append(value)
    return {name: float(np.mean(values)) for name, values in found.items()}


def _of_document(
    looks: dict[str, AttentionMap], review: Review, cut: TokenizedDocument, tokenizer: Tokenizer, place: tuple[int, int]
) -> dict[str, float]:
    """`place`: the number of the document in the batch, and of its first sentence."""
    words = locate_words(review.text, cut, tokenizer)
    deciding = [word for row in words for word in row if overlaps_any(word.item.span, review.evidence_words)]
    values: dict[str, float] = {}
    if not deciding:
        return values  # it lies beyond what is read of a document
    row = deciding[0].row
    if "sentences" in looks:
        weights = _row(looks["sentences"], place[0], len(cut.rows))
        values["deciding_sentence"] = float(int(weights.argmax()) == row)
    if "words" in looks:
        weights = _row(looks["words"], place[1] + row, len(cut.rows[row]))
        values["deciding_words"] = float(weights[[word.column for word in deciding]].sum())
    for name, before in (("document", 0), ("text", 1)):
        if name in looks:
            weights = _row(looks[name], place[0], None)
            numbers = [before + word.item.word for word in deciding if word.item.word is not None]
            values["deciding_words"] = float(weights[numbers].sum())
    return values


def _row(attention: AttentionMap, batch: int, length: int | None) -> Tensor:
    """The weights (s) of one row of the batch, heads averaged."""
    weights: Tensor = torch.mean(attention.weights[batch, :, 0], dim=0)
    return weights[:length]
