"""Inspection of a sentence: rows, labels and metrics, for every translation model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_runs import GREEDY, MODELS

from regard.attention.record import record
from regard.core.errors import DataError, RegardError
from regard.core.inspectable import Inspectable, Output
from regard.core.protocols import Hypothesis
from regard.core.task import Task
from regard.inspection.collect import collect, default_options, inspect, inspect_quickly
from regard.inspection.interventions import Interventions
from regard.inspection.json_format import to_json
from regard.models import transformer


@pytest.fixture(scope="module", params=MODELS)
def looked(request, task):
    import tiny_runs

    target = tiny_runs.make_subject(task, request.param)
    return target, collect(target, task.split("train")[0][0])


def test_rows_sum_to_one_and_every_row_and_column_has_its_label(looked):
    _, result = looked
    for item in result.maps:
        assert item.weights.sum(axis=-1) == pytest.approx(1, abs=1e-5)
        rows, columns = result.axes[item.queries].items, result.axes[item.keys].items
        assert item.weights.shape[1:] == (len(rows), len(columns))
    assert result.axes["source"].labels[-1] == "<end>" and result.axes["output"].labels[-1] == "<end>"
    assert result.axes["read"].labels == ("<start>", *result.axes["output"].labels[:-1])


@torch.no_grad()
def test_row_t_is_the_attention_that_emitted_output_t(looked):
    """Decode greedily token by token and record each step: the maps must have these rows."""
    target, _ = looked
    text = target.task.split("train")[0][0]
    shown = replace(target, decoding=GREEDY).inspect(text)
    result = collect(replace(target, decoding=GREEDY), text)
    state = target.model.start(target.task.encode_sources([text]))
    token = target.task.spec.special_tokens.bos
    crossing = [m for m in result.maps if m.keys == "source" and m.queries == "output"][-1]
    for row in range(crossing.weights.shape[1]):
        with record(target.model, only=crossing.name) as maps:
            _, state = target.model(torch.tensor([[token]]), state)
        alone = maps[crossing.name].weights[0, :, 0].numpy()
        assert crossing.weights[:, row] == pytest.approx(alone, abs=1e-5)
        token = int(shown.predicted_ids[row])
        assert target.task.vocabularies.target.token_text(token) == result.axes["output"].labels[row]


def test_groups_and_layers_are_numbered(looked):
    target, result = looked
    layers = {}
    for m in result.maps:
        layers.setdefault(m.title, []).append(m.layer)
    if target.run_info.model == "transformer":
        titles = ["Source self-attention", "Output self-attention", "Output → source"]
        assert layers == {key: [0, 1] for key in titles}
    else:
        assert layers == {"Output → source": [0]}


def test_everything_is_there_and_is_json(looked):
    _, result = looked
    assert result.outputs and result.steps and all(item.honesty for item in result.maps)
    assert len(result.outputs) == 3
    to_json(result)


def test_looking_changes_nothing(looked):
    target, _ = looked
    text = target.task.split("train")[1][0]

    def answers():
        return target.task.predict(target.model, [text], default_options(target.task), target.decoding)

    usual = answers()
    collect(target, text)
    assert [a.text for a in answers()[0]] == [a.text for a in usual[0]]
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in target.model.modules())


def test_the_true_alignment_is_measured_when_the_output_is_right(task, sentence, subject):
    reference = dict(task.split("train"))[sentence]
    tokens = task.vocabularies.target.encode([reference])[0]
    forced = replace(subject(), decoding=FixedOutput(tokens))
    result = collect(forced, sentence)
    assert result.outputs[0].text == reference
    between = {item.name for item in result.maps if (item.queries, item.keys) == ("output", "source")}
    assert set(result.truth.rates) == between
    assert all(0 <= rate["mean"] <= 1 for rate in result.truth.rates.values())
    rows, columns = len(result.axes["output"].items), len(result.axes["source"].items)
    assert result.truth.links and all(t < rows - 1 and s < columns - 1 for t, s in result.truth.links)
    assert result.primary_map.name == result.truth.best
    assert collect(replace(subject(), decoding=FixedOutput((7, 8))), sentence).truth is None


class FixedOutput:
    """A strategy that always returns the same tokens."""

    name, width = "fixed", 1

    def __init__(self, tokens):
        self.tokens = tuple(tokens)

    def __call__(self, *_, **__):
        return [[Hypothesis(self.tokens, -1.0, -1.0)]]

    def with_nbest(self, count):
        return self


def test_a_switched_off_head_shows_as_empty(subject, sentence):
    name = "decoder.layers.0.cross_attn"
    result = collect(subject(), sentence, interventions=Interventions(off=((name, 1),)))
    weights = next(item.weights for item in result.maps if item.name == name)
    assert not weights[1].any() and weights[0].any()


def test_a_model_without_attention_says_so_unless_there_is_something_else_to_show(documents, subject, sentence):
    with pytest.raises(RegardError, match=r"seq2seq has no attention to inspect; regard compare shows it next to"):
        collect(subject("seq2seq"), sentence)
    result = inspect(subject("seq2seq"), sentence)
    assert result.maps == () and result.outputs
    assert collect(replace(documents, model=torch.nn.Linear(1, 1), task=Unattended()), "a text").maps == ()


class Unattended(Task):
    """A task without attention, with its own view."""

    def inspect(self, model, picture, options, decoding):
        logits, output = torch.zeros(1, 2), (Output("yes"),)
        return Inspectable(picture, {}, {}, {}, output, lambda: logits, torch.tensor([0]), extra={"numbers": [1]})


def test_bad_input_is_one_clear_line(subject, documents):
    with pytest.raises(DataError, match=r"has 202 tokens .*; the model was trained for at most 12"):
        collect(subject(), "word " * 200)
    with pytest.raises(DataError, match=r"there is no sentence"):
        collect(subject(), "  ")
    with pytest.raises(DataError, match=r"there is no sentence to read; give some text"):
        collect(documents, ".")


def test_an_input_that_is_no_text_is_not_read(pictures):
    picture = pictures.task.parse_input("123456789")
    result = collect(pictures, picture)
    assert result.text == result.title == "a picture"
    assert collect(pictures, "123456789").text == "123456789"


def test_a_task_without_decoding_has_no_tokens_but_all_else(documents, pictures):
    result = collect(documents, documents.task.examples[0])
    assert result.outputs[0].tokens[0].alternatives[0][0] == result.outputs[0].text
    assert {step.map for step in result.steps} == {item.name for item in result.maps}
    assert all(item.honesty is not None and not item.honesty.by_row for item in result.maps)
    boxes = [item.box for item in collect(pictures, pictures.task.examples[0]).axes["patches"].items]
    assert boxes[0] == pytest.approx((0, 0, 1 / 3, 1 / 3)) and len(boxes) == 9


def test_options_are_those_of_the_tasks_file(documents, pictures):
    assert default_options(documents.task).n == 1
    assert default_options(pictures.task) is None


def test_an_item_is_forbidden_by_its_axis(subject, documents, sentence):
    result = collect(subject(), sentence, interventions=Interventions(forbid=(("source", 1), ("read", 0))))
    for item in result.maps:
        assert (item.weights[..., 1 if item.keys == "source" else 0] == 0).all()
    text = documents.task.examples[0]
    usual, changed = (
        collect(documents, text),
        collect(documents, text, interventions=Interventions(forbid=(("sentences", 0),))),
    )
    assert changed.primary_map.weights[0, 0, 0] == 0 and usual.primary_map.weights[0, 0, 0] > 0


def test_a_glance_has_the_maps_alone(subject, sentence):
    target = subject()
    result, complete = inspect_quickly(target, sentence), collect(target, sentence)
    assert [m.name for m in result.maps] == [m.name for m in complete.maps] and result.outputs == complete.outputs
    assert not result.steps and all(m.honesty is None and m.allowed is None for m in result.maps)


def test_tables_are_made_where_none_are_given(subject, sentence):
    result = collect(replace(subject(), tables=None), sentence)
    assert result.positions.scheme == "sinusoidal"
    assert [item.name for item in result.embeddings] == ["source, PCA", "source, t-SNE", "target, PCA", "target, t-SNE"]
    words = result.embeddings[0].labels
    assert set(words) >= set(result.axes["source"].labels[:-1])


def test_training_mode_is_given_back(subject, sentence):
    target = subject()
    target.model.train()
    collect(target, sentence)
    assert target.model.training


def test_a_model_of_other_scores_and_places_can_be_looked_into(task, sentence, subject):
    for changes in ({"score": "additive"}, {"position": "rotary"}, {"position": "relative"}):
        model = transformer.build(replace(transformer.TINY, **changes), task.spec).eval()
        result = collect(replace(subject(), model=model), sentence)
        assert np.isfinite(result.maps[0].weights).all() and result.steps
