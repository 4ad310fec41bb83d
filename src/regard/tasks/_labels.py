"""Scores of labels: accuracy, F1 where a document may have several, the confusion matrix; and labels as answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from regard.core.task import Answer

MOST = 20  # labels up to which a confusion matrix is given
UNEVEN = 10  # labels are uneven if one is so many times as frequent as another
NONE = "none"  # what is said of a document that has no label
ONE = {
    "accuracy": "share of documents whose likeliest label is the true one; an empty document counts as wrong",
    "loss": "mean -log p of the true label, in nats",
    "confusion": "confusion.A.B: documents labelled A of which the model says B",
}
SEVERAL = {
    "f1": "F1 of all pairs of document and label together (micro), a label given where its probability is at least 0.5",
    "f1_macro": "mean of the F1 of each label; a label that is neither there nor given counts as 0",
    "accuracy": "share of documents whose labels are all right and complete",
    "loss": "mean over documents of the summed -log p of every label's yes or no, in nats",
}


def scores(logits: Tensor, labels: Tensor, *, blank: int, several: bool) -> dict[str, float]:
    """Logits (n v) and labels (n) or (n v) -> scores; `blank` documents could not be read and count as wrong."""
    total = len(labels) + blank
    if not several:
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


def confusion(logits: Tensor, labels: Tensor, names: Sequence[str], *, several: bool) -> dict[str, float]:
    """How often the model says B of documents labelled A; with several labels how often each is right and wrong."""
    if len(names) > MOST:
        return {}
    if several:
        given, true = logits >= 0, labels == 1
        kinds = {"right": given & true, "missed": true & ~given, "wrong": given & ~true}
        return {f"{kind}.{name}": float(x[:, i].sum()) for i, name in enumerate(names) for kind, x in kinds.items()}
    counts = torch.zeros(len(names), len(names))
    counts.index_put_((labels, logits.argmax(dim=1)), torch.ones(len(labels)), accumulate=True)
    return {
        f"confusion.{true}.{said}": float(counts[i, j]) for i, true in enumerate(names) for j, said in enumerate(names)
    }


def answers(
    logits: Tensor, names: Sequence[str], *, top: int, threshold: float | None, remarks: tuple[str, ...] = ()
) -> list[Answer]:
    """Logits (v) -> the likeliest labels with their log p. With a threshold documents may have several labels: then the
    first answer names all that are probable, and `top` further labels stand behind it if more than one is asked for."""
    log_p = logits.log_softmax(dim=0) if threshold is None else torch.nn.functional.logsigmoid(logits)
    order = log_p.argsort(descending=True).tolist()
    best = [Answer(names[i], float(log_p[i]), float(log_p[i]), value=i, remarks=remarks) for i in order[:top]]
    if threshold is None:
        return best
    given = log_p.exp() >= threshold
    score = float(torch.where(given, log_p, torch.nn.functional.logsigmoid(-logits)).sum())
    labels = [names[i] for i in order if given[i]]
    first = Answer(", ".join(labels) or NONE, score, score, value=order[0], remarks=remarks, data={"labels": labels})
    return [first, *(best if top > 1 else [])]


def unbalanced(counts: Counter[int], names: Sequence[str]) -> list[str]:
    """A note where labels are uneven, or where one is never seen."""
    if not counts:
        return []
    (most, large), (least, small) = counts.most_common()[0], counts.most_common()[-1]
    if large < UNEVEN * small:
        return []
    return [f"uneven labels: {large} training documents are {names[most]!r}, {small} are {names[least]!r}"]
