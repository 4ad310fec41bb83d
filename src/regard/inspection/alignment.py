"""How well each map finds the true alignment of one example; the error rate itself is that of data/alignment.py."""

from __future__ import annotations

from typing import Any

from regard.data.alignment import error_rate, links
from regard.inspection.example import Truth
from regard.inspection.format import Alignment, Map
from regard.inspection.pack import Numbers


def judge(maps: tuple[Map, ...], truth: Truth) -> Alignment | None:
    """The cross-attention maps and the true links -> each one's error rate, and the best; None without such maps."""
    crossing = [one for one in maps if one.group == "cross"]
    if not crossing:
        return None
    rates: dict[str, dict[str, Any]] = {}
    for one in crossing:
        heads = [_rate(head, truth) for head in one.weights]
        rates[one.name] = {"mean": _rate(one.weights.mean(axis=0), truth), "heads": heads}
    best = min(rates, key=lambda name: rates[name]["mean"])
    return Alignment(truth.drawn, rates, best)


def _rate(weights: Numbers, truth: Truth) -> float:
    return error_rate([links(weights, source=truth.columns, target=truth.rows)], [truth.links])
