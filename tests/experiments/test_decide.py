"""Verdicts state their rule, their reason, and effects with intervals."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.core.registry import find, registered_names
from regard.experiments._page import verdict_lines
from regard.experiments._references import CITATION, PAPERS, link_references
from regard.experiments._runner import read_complete
from regard.experiments._verdict import Effect, decide, difference, judge, power_law, ratio

DOCS = Path(__file__).parents[2] / "docs"
NAMES = registered_names("regard.experiments")


def test_conditions_make_the_rule_and_the_reason():
    result = decide("Text.", {"a > b": True, "c > d": False}, [])
    assert result.rule == "The claim holds if a > b and c > d."
    assert (result.holds, result.reason) == (False, "Not met: c > d.")
    assert decide("Text.", {"a > b": True}, []).reason == "Every condition of the rule is met."
    assert decide("Text.", {"a > b": True}, [], undecided="Too short.")[0] is None


def test_the_interval_of_a_difference_spans_all_pairs_of_seeds():
    effect = difference("F1, a minus b", [0.9, 1.0], [0.5, 0.7])
    assert (effect.low, effect.value, effect.high) == pytest.approx((0.2, 0.35, 0.5))
    assert str(effect) == "F1, a minus b: +0.35 (+0.20 to +0.50)"
    assert str(difference("x", [1.0], [0.5])) == "x: +0.50 (no interval: one value)"


def test_the_interval_of_a_ratio_spans_all_pairs_of_seeds():
    effect = ratio("time", [2.0, 4.0], [1.0, 2.0])
    assert (effect.low, effect.value, effect.high) == (1.0, 2.0, 4.0)


def test_a_fitted_exponent_has_an_interval():
    exact = power_law("p", [1, 2, 4, 8], [3 * x**1.5 for x in (1, 2, 4, 8)])
    assert (exact.low, exact.value, exact.high) == pytest.approx((1.5, 1.5, 1.5))
    noisy = power_law("p", [1, 2, 4, 8], [3.0, 9.0, 22.0, 70.0])
    assert noisy.low < noisy.value < noisy.high
    assert noisy.low < 1.5 < noisy.high


def test_a_page_shows_reason_rule_and_effect():
    lines = verdict_lines(decide("Text.", {"a > b": True}, [Effect("gain", 1.0, 0.5, 1.5)]))
    assert lines == [
        "**Holds here.** Every condition of the rule is met.",
        "",
        "Rule: The claim holds if a > b.",
        "",
        "Effect: gain: +1.00 (+0.50 to +1.50).",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_stored_verdict_has_rule_reason_and_effect(name):
    experiment = find("regard.experiments", name)
    stored = read_complete(experiment, DOCS / "claims" / name.replace("_", "-"))
    if stored is None:
        pytest.skip("not measured yet")
    result = judge(experiment, stored.figures)
    assert result.rule.startswith("The claim holds if ") and result.reason.endswith(".") and result.effects
    assert all(effect.low <= effect.value <= effect.high for effect in result.effects)


@pytest.mark.parametrize("name", NAMES)
def test_every_paper_of_a_reference_is_linked(name):
    citations = CITATION.findall(find("regard.experiments", name).REFERENCE)
    assert citations and set(citations) <= set(PAPERS)


def test_citations_become_links():
    assert link_references("Xu et al. 2015, section 4; Jain and Wallace 2019") == (
        "[Xu et al. 2015](https://arxiv.org/abs/1502.03044), section 4;"
        " [Jain and Wallace 2019](https://arxiv.org/abs/1902.10186)"
    )
    assert link_references("Doe et al. 1999") == "Doe et al. 1999"
