"""The card "How far to trust this map" has the figures of the map that is drawn, in every view of every task."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from browser import opened
from task_targets import target_of, with_attention

from regard.inspection import faithfulness
from regard.inspection.collect import collect
from regard.inspection.html_bundle import bundle
from regard.inspection.json_format import to_json
from regard.inspection.maps import is_long

MEAN = -1
WITHOUT_WEIGHTS = {
    "embeddings",
    "masked",
    "next_token",
    "positions",
    "training",
}  # views that draw no map of the input


def figures(target, text, result):
    """Return a function (map name, head) -> the two metrics of that head, or of the mean of the heads, computed from
    evidence that is gathered here."""
    inspectable = target.inspect(text)
    short = [item for item in result.maps if not is_long(item.weights)]
    evidence = faithfulness.gather_evidence(target.model, inspectable, [item.keys for item in short])
    maps = {item.name: item for item in result.maps}

    @cache
    def measure(name, head):
        drawn = maps[name]
        if is_long(drawn.weights):
            return None
        heads = list(range(len(drawn.weights))) if head == MEAN else [head]
        mask = None if drawn.allowed is None else drawn.allowed[[min(i, len(drawn.allowed) - 1) for i in heads]]
        single = replace(
            drawn,
            weights=np.mean(drawn.weights[heads], axis=0, keepdims=True),
            allowed=None if mask is None else mask.any(axis=0, keepdims=True),
        )
        measured = faithfulness.measure_faithfulness(single, evidence, inspectable.answer_axis)
        return None if measured is None else (measured.gradient[0], measured.removal[0])

    return measure


def drawn_heads(page, maps):
    """Return the map that the controls of a view select, and its heads: MEAN, or a list of heads. None: no control."""
    names = {item.name for item in maps}
    pressed = page.locator("#view .thumb[aria-pressed='true'][data-key^='thumb:']")
    if pressed.count():
        name, head = re.fullmatch(r"thumb:(.+):(\d+)", pressed.get_attribute("data-key")).groups()
        return name, [int(head)]
    selected = [box.input_value() for box in page.locator("#view .controls select").all()]
    name = next((value for value in selected if value in names), None)
    chips = page.locator("#view .chip[data-key^='chip:'][aria-pressed='true']")
    if chips.count():
        return name, [int(chip.get_attribute("data-key").split(":")[1]) for chip in chips.all()]
    checked = page.locator("#view [role=radiogroup][aria-label='Head'] [aria-checked='true']")
    if checked.count():
        return name, [int(checked.get_attribute("data-key").split(":")[1])]
    listed = page.locator("#view select[data-key='select:Heads'], #view select[data-key='select:Head']")
    return name, [int(listed.input_value())] if listed.count() else None


def shown_figures(page):
    """Return {(map, head): (agreement, removal)} as the cards show them."""
    cards = {}
    for card in page.locator(".trust").all():
        numbers = [text.replace("−", "-") for text in card.locator(".meter .figure").all_inner_texts()]
        agreement = next((float(text) for text in numbers if not text.endswith("%")), None)
        removal = next((int(text[:-1]) for text in numbers if text.endswith("%")), None)
        cards[card.get_attribute("data-map"), int(card.get_attribute("data-head"))] = (agreement, removal)
    return cards


def rounded(metrics):
    """Return the metrics as a card shows them: two decimals, and whole percents."""
    agreement, removal = metrics
    return (None if agreement is None else round(agreement, 2), None if removal is None else int(100 * removal + 0.5))


def drawn_weights(page):
    """Return the weights that the view shows as numbers of four decimals, in the order of the screen."""
    texts = page.locator("#view .distribution .share-value").all_inner_texts()
    return np.array([float(text) for text in texts if re.fullmatch(r"[01]\.\d{4}", text)])


def is_part_of(shown, weights):
    """Return True if the numbers are a row or a column of the weights (t s): all of it, or its largest weights."""
    for line in [*weights, *weights.T]:
        expected = line if len(line) == len(shown) else np.sort(line)[::-1][: len(shown)]
        if len(expected) == len(shown) and np.abs(expected - shown).max(initial=0) < 6e-5:
            return True
    return False


def check_drawn_weights(page, cards, result):
    """Compare the numbers of the view with the map of its cards."""
    shown = drawn_weights(page)
    if not len(shown) or not cards:
        return
    weights = {item.name: item.weights for item in result.maps}
    drawn = [weights[name].mean(axis=0) if head == MEAN else weights[name][head] for name, head in cards]
    assert any(is_part_of(shown, item) for item in drawn), (sorted(cards), shown)


def check_card(page, measure, result):
    """Compare the cards of the selected view with the figures of the map that its controls name, and that it draws."""
    name, heads = drawn_heads(page, result.maps)
    cards = shown_figures(page)
    counts = {item.name: len(item.weights) for item in result.maps}
    if name is not None and heads is not None:
        expected = {(name, 0 if counts[name] == 1 else head) for head in heads if measure(name, head) is not None}
        assert set(cards) == expected
    elif heads is not None:
        assert {head for _, head in cards} <= {*heads, 0}
    check_drawn_weights(page, cards, result)
    for key, numbers in cards.items():
        expected = rounded(measure(*key))
        assert numbers[1] == expected[1]
        assert numbers[0] == pytest.approx(expected[0], abs=0.0101) if expected[0] is not None else numbers[0] is None
    return len(cards)


@pytest.mark.parametrize("name", with_attention())
def test_the_card_has_the_figures_of_the_drawn_map(browser, tmp_path, name):
    target = target_of(name, tmp_path)
    text = target.task.examples[0]
    result = collect(target, text)
    measure = figures(target, text, result)
    path = tmp_path / "page.html"
    path.write_text(bundle(to_json(result)), encoding="utf-8")
    count, has_figures = 0, any(item.honesty is not None for item in result.maps)
    with opened(browser, path.as_uri()) as page:
        tabs = [tab.get_attribute("id") for tab in page.get_by_role("tab").all()]
        for tab in tabs:
            page.locator(f"#{tab}").click()
            shown = check_card(page, measure, result)
            if has_figures and tab.removeprefix("tab-") not in WITHOUT_WEIGHTS:
                assert shown > 0, f"{tab} draws weights without a card"
            count += shown
            for control in page.locator("#view [role=radiogroup][aria-label='Head'] [role=radio]").all()[:3]:
                control.click()
                count += check_card(page, measure, result)
            boxes = page.locator("#view select[data-key='select:Heads'], #view select[data-key='select:Head']")
            if boxes.count():
                boxes.first.select_option(index=1)
                count += check_card(page, measure, result)
    assert count > 0 or not has_figures
