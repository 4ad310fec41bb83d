"""Predictions of a classifier: logits as labels with their log probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from regard.core.task import Prediction
from regard.data.text.document_corpus import TokenizedDocument

NO_LABEL = "none"  # output text of a document without a label


def to_predictions(
    logits: Tensor, names: Sequence[str], *, top: int, threshold: float | None, remarks: Sequence[tuple[str, ...]]
) -> list[list[Prediction]]:
    """Logits (b v) -> the `top` most likely labels of each document with their log p, with the document's remarks.

    With a threshold a document may have several labels. The first prediction then lists all labels above the
    threshold, followed by the `top` labels if `top` is more than 1.
    """
    log_p = logits.log_softmax(dim=1) if threshold is None else logsigmoid(logits)
    orders = log_p.argsort(dim=1, descending=True).tolist()
    predictions = [
        [Prediction(names[i], row[i], row[i], value=i, remarks=remark) for i in order[:top]]
        for row, order, remark in zip(log_p.tolist(), orders, remarks, strict=True)
    ]
    if threshold is None:
        return predictions
    is_predicted = log_p.exp() >= threshold
    scores = torch.where(is_predicted, log_p, logsigmoid(-logits)).sum(dim=1).tolist()
    combined = []
    for row, order, score, best, remark in zip(
        is_predicted.tolist(), orders, scores, predictions, remarks, strict=True
    ):
        labels = [names[i] for i in order if row[i]]
        text = ", ".join(labels) or NO_LABEL
        first = Prediction(text, score, score, value=order[0], remarks=remark, data={"labels": labels})
        combined.append([first, *(best if top > 1 else [])])
    return combined


def truncation_remarks(document: TokenizedDocument) -> tuple[str, ...]:
    """Return a remark if only a part of the document is read."""
    num_read = sum(map(len, document.rows))
    if num_read >= document.num_tokens:
        return ()
    return (f"only the first {num_read} of {document.num_tokens} tokens are read",)
