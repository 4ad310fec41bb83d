"""The page computes what Python computes: outputs, scores, tokens and attention maps."""

from __future__ import annotations

import pytest

from regard.convert.web.equality import compare
from regard.convert.web.model_file import model_file
from regard.core.registry import registered_names
from regard.inspection.collect import inspect
from regard.inspection.interventions import Interventions
from regard.inspection.report import target_of
from regard.training.load_run import load_run

TEXTS = {
    "classification": [
        "I loved it. Dr. Kim said no! The soup\nwas cold, e.g. frozen…",
        "한국어 문장이다.다음 문장이다. 끝",
        "one",
    ],
    "tagging": ["Maria Kim doesn't live in Seoul 3.5% 한국 🍎", "a"],
    "translation": ["My father buys three apples in the market.", "Zoë eats\tan unknown fruit 🍎!", "a"],
}
CHANGED = {
    "classification": (("words.pool", 0), ("words.0", 1)),
    "tagging": (("layers.1.self_attn", 2), ("sentence", 1)),
    "translation": (("decoder.layers.1.cross_attn", 2), ("source", 1)),
}  # a head and an item


@pytest.fixture(scope="module", params=sorted(TEXTS))
def shipped(request, engine):
    """A shipped run, loaded here and in the page."""
    parts = load_run(f"pretrained:{request.param}")
    file = model_file(parts) | {"page": {"facts": {}}}
    engine.evaluate("file => regard.load(file)", file)
    return request.param, parts


def test_inspections_are_equal(shipped, engine):
    task, parts = shipped
    for text in [*TEXTS[task], *parts.task.examples[:1]]:
        page = engine.evaluate("text => regard.inspect({ text })", text)
        difference = compare(inspect(target_of(parts), text), page)
        assert difference.is_equal, (text, difference)


def test_changes_of_the_attention_are_equal(shipped, engine):
    task, parts = shipped
    head, item = CHANGED[task]
    changes = {"disabled_heads": [head], "hidden_items": [item], "temperature": 1.5}
    python = inspect(target_of(parts), TEXTS[task][0], interventions=Interventions((head,), (item,), 1.5))
    page = engine.evaluate("request => regard.inspect(request)", {"text": TEXTS[task][0], "changes": changes})
    difference = compare(python, page)
    assert difference.is_equal, difference


def test_every_task_of_the_page_is_listed():
    assert set(TEXTS) == set(registered_names("regard.convert.web.tasks"))
