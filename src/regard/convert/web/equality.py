"""Differences between the inspection of an input by Python and by the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from regard.inspection.json_format import Inspection, axes_to_json

SCORE_TOLERANCE = 1e-4  # log probabilities
WEIGHT_TOLERANCE = 1e-5  # attention weights


class Difference(NamedTuple):
    """Differences of one input."""

    problems: tuple[str, ...]  # differences of names, texts and shapes; () if there are none
    scores: float  # largest absolute difference of log probabilities
    weights: float  # largest absolute difference of attention weights

    @property
    def is_equal(self) -> bool:
        """True if all names and texts are equal, and all numbers within the tolerances."""
        return not self.problems and self.scores <= SCORE_TOLERANCE and self.weights <= WEIGHT_TOLERANCE


def compare(python: Inspection, page: Mapping[str, Any]) -> Difference:
    """Inspection by Python, and the plain inspection by the page (js/global.js) -> their differences."""
    problems = [
        f"{name}: {expected!r} and {page[name]!r}"
        for name, expected in (
            ("title", python.title or python.text),
            ("answered", python.answered),
            ("views", list(python.views)),
            ("remarks", list(python.remarks)),
            ("axes", _axes(axes_to_json(python.axes))),
            ("extra", sorted(python.extra)),
        )
        if _named(page, name) != expected
    ]
    texts = [output.text for output in python.outputs], [output["text"] for output in page["outputs"]]
    names = [_names(vars(item)) for item in python.maps], [_names(item) for item in page["maps"]]
    problems += [f"{what}: {first} and {second}" for what, (first, second) in
                 (("outputs", texts), ("maps", names)) if first != second]  # fmt: skip
    if problems:
        return Difference(tuple(problems), float("inf"), float("inf"))
    scores = [_score_difference(vars(first), second) for first, second in
              zip(python.outputs, page["outputs"], strict=True)]  # fmt: skip
    weights = [
        float(np.abs(first.weights.ravel() - np.asarray(second["values"], dtype=np.float32)).max(initial=0))
        for first, second in zip(python.maps, page["maps"], strict=True)
    ]
    return Difference((), max(scores, default=0.0), max(weights, default=0.0))


def _named(page: Mapping[str, Any], name: str) -> Any:
    """Return a part of the page's inspection in the form that is compared."""
    part = page[name]
    return _axes(part) if name == "axes" else sorted(part) if name == "extra" else part


def _axes(axes: Mapping[str, Any]) -> dict[str, Any]:
    """Return axes as plain values, with lists in place of tuples."""
    return {
        name: {
            "title": axis["title"],
            "parent": axis["parent"],
            "items": [{key: _plain(value) for key, value in item.items()} for item in axis["items"]],
        }
        for name, axis in axes.items()
    }


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return round(value, 4) if isinstance(value, float) else value


def _names(attention: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(attention[key] for key in ("name", "queries", "keys", "group", "title", "layer"))


def _score_difference(python: Mapping[str, Any], page: Mapping[str, Any]) -> float:
    """Return the largest difference of the scores of an output and of its tokens."""
    pairs = [(python["score"], page["score"]), (python["rank"], page["rank"])]
    pairs += [(token.score, other["score"]) for token, other in zip(python["tokens"], page["tokens"], strict=True)]
    if any((first is None) != (second is None) for first, second in pairs):
        return float("inf")
    return max((abs(first - second) for first, second in pairs if first is not None), default=0.0)
