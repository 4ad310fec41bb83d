"""Conversion of recorded weights to maps: batch rows, axes, padding, groups and layers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.attention.record import AttentionMap, record
from regard.core.errors import ShapeError
from regard.core.inspectable import Axis, AxisRef, Inspectable, Item, Parent
from regard.inspection.call_recorder import record_calls
from regard.inspection.collect import collect
from regard.inspection.maps import title_of, to_maps


def axis(size, title="axis", parent=None):
    return Axis(tuple(Item(f"{title} {i}") for i in range(size)), title, parent)


def shown(axes, rows, columns):
    logits = torch.zeros(1, 2)
    return Inspectable("a", axes, rows, columns, (), lambda: logits, torch.tensor([0]))


def weights(*shape, keys=None):
    """Return random weights (b h t s) whose last columns are padding."""
    raw = torch.rand(shape).softmax(-1)
    if keys is not None:
        raw[..., keys:] = 0
    return raw


def test_every_batch_row_that_is_named_is_a_map_of_its_own():
    recorded = {"words": AttentionMap(weights(3, 2, 1, 5, keys=4), "question", "words")}
    axes = {f"words.{i}": axis(4, f"words {i}", Parent("sentences", i)) for i in (0, 2)}
    axes |= {"question": axis(1, "question"), "sentences": axis(3)}
    columns = {"words": (AxisRef("words.0", 0), AxisRef("words.2", 2))}
    _, maps = to_maps(recorded, shown(axes, {"question": (AxisRef("question", None),)}, columns))
    assert [(item.name, item.module, item.batch, item.keys) for item in maps] == [
        ("words #1", "words", 0, "words.0"),
        ("words #3", "words", 2, "words.2"),
    ]
    for item in maps:
        assert (item.weights == recorded["words"].weights[item.batch, :, :, :4].numpy()).all()
        assert item.parent == Parent("sentences", item.batch)
    assert [item.title for item in maps] == ["Question → words 0", "Question → words 2"]


def test_padding_of_queries_is_cut_off_where_there_is_a_batch():
    recorded = {"attn": AttentionMap(weights(2, 1, 6, 6, keys=4), "words", "words")}
    refs = (AxisRef("words", 1),)
    _, (attention,) = to_maps(recorded, shown({"words": axis(4, "words")}, {"words": refs}, {"words": refs}))
    assert attention.weights.shape == (1, 4, 4) and attention.batch == 1
    assert attention.title == "Words self-attention" and attention.inward


@pytest.mark.parametrize(("shape", "keys"), [((2, 1, 4, 6), None), ((1, 1, 6, 4), None)])
def test_what_is_cut_off_and_is_no_padding_is_an_error_that_names_the_map(shape, keys):
    recorded = {"attn": AttentionMap(weights(*shape, keys=keys), "target", "source")}
    mismatched = shown({"x": axis(4), "y": axis(4)}, {"target": (AxisRef("x"),)}, {"source": (AxisRef("y"),)})
    with pytest.raises(ShapeError, match=r"map attn: . × . weights, but axis 'x' has 4 items and 'y' 4, and the rest"):
        to_maps(recorded, mismatched)


def test_rows_that_are_not_named_on_both_sides_are_an_error():
    recorded = {"attn": AttentionMap(weights(2, 1, 4, 4), "target", "source")}
    axes = {"x": axis(4)}
    for rows, columns in (((AxisRef("x", 0),), (AxisRef("x", 1),)), ((AxisRef("x", 5),), (AxisRef("x", None),))):
        with pytest.raises(ShapeError, match=r"map attn: axes name the batch rows \[.*\], but the batch has 2 rows"):
            to_maps(recorded, shown(axes, {"target": rows}, {"source": columns}))


def test_what_the_task_does_not_know_is_numbered():
    recorded = {"attn": AttentionMap(weights(1, 1, 2, 3), "latent", "source")}
    axes, (attention,) = to_maps(recorded, shown({"x": axis(3, "source")}, {}, {"source": (AxisRef("x"),)}))
    assert axes[attention.queries].labels == ("1", "2") and attention.title == "Latent → source"


def test_groups_stay_together_and_layers_are_numbered_within_them():
    refs = {"a": (AxisRef("a"),), "b": (AxisRef("b"),)}
    order = [("0.self", "a", "a"), ("0.cross", "a", "b"), ("1.self", "a", "a"), ("1.cross", "a", "b")]
    recorded = {name: AttentionMap(weights(1, 2, 3, 3), queries, keys) for name, queries, keys in order}
    _, maps = to_maps(
        recorded, shown({"a": axis(3, "a"), "b": axis(3, "b")}, refs, refs), disabled_heads={("1.self", 1)}
    )
    assert [(item.name, item.layer) for item in maps] == [("0.self", 0), ("1.self", 1), ("0.cross", 0), ("1.cross", 1)]
    assert not maps[1].weights[1].any() and maps[1].weights[0].any()


def test_titles():
    assert title_of("output", "read", inward=True) == "Output self-attention"
    assert title_of("output", "image", inward=False) == "Output → image"


@torch.no_grad()
def test_short_maps_know_who_may_look_at_whom(subject, sentence):
    item = subject()
    shown = item.inspect(sentence)
    with record_calls(item.model) as calls, record(item.model) as recorded:
        shown.replay()
    _, maps = to_maps(recorded, shown, recorded_calls=calls)
    for attention in maps:
        if (attention.queries, attention.keys) == ("output", "read"):
            assert (attention.allowed[0] == np.tril(np.ones(attention.weights.shape[1:], bool))).all()
        else:
            assert attention.allowed is None


def test_maps_of_both_levels(documents):
    inspection = collect(documents, documents.task.examples[0])
    upper = [item.name for item in inspection.maps if item.parent is None]
    assert upper == ["sentence_attn"] and inspection.primary_map.name == "sentence_attn"
    for sentence, words in enumerate((4, 7, 4)):
        inside = [item for item in inspection.maps if item.parent == Parent("sentences", sentence)]
        assert [item.weights.shape for item in inside] == [(1, words, words), (1, 1, words)]
        for item in inside:
            assert item.weights.sum(axis=-1) == pytest.approx(1, abs=1e-5)
