"""From a sentence to its maps: the right rows, the right labels, for every translation model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from subjects import MODELS, briefly

from regard.attention.record import record
from regard.core.errors import DataError, RegardError
from regard.core.protocols import Hypothesis
from regard.decoding import greedy
from regard.inspection.collect import About, Subject, collect, inspect
from regard.inspection.format import to_json
from regard.inspection.whatif import Changes
from regard.models import transformer


@pytest.fixture(scope="module", params=MODELS)
def looked(request, task):
    import subjects

    one = subjects.make_subject(task, request.param)
    return one, collect(one, task.split("train")[0][0])


def test_rows_sum_to_one_and_every_row_and_column_has_its_label(looked):
    _, found = looked
    for one in found.maps:
        assert one.weights.sum(axis=-1) == pytest.approx(1, abs=1e-5)
        rows, columns = found.axes[one.queries].labels, found.axes[one.keys].labels
        assert one.weights.shape[1:] == (len(rows), len(columns))
    assert found.axes["source"].labels[-1] == "<end>" and found.axes["output"].labels[-1] == "<end>"
    assert found.axes["read"].labels == ("<start>", *found.axes["output"].labels[:-1])


@torch.no_grad()
def test_row_t_is_the_look_from_which_output_t_was_emitted(looked):
    """Decode greedily one token at a time, recording each step alone: the maps must be those rows."""
    one, _ = looked
    greedily = replace(one, decode=briefly(greedy, greedy.Config()))
    text = one.task.split("train")[0][0]
    found = collect(greedily, text)
    state = one.model.start(one.task.encode_sources([text]))
    token, labels = one.task.marks.start, []
    crossing = [m for m in found.maps if m.group == "cross"][-1]
    for row in range(crossing.weights.shape[1]):
        with record(one.model, only=crossing.name) as maps:
            logits, state = one.model(torch.tensor([[token]]), state)
        alone = maps[crossing.name].weights[0, :, 0].numpy()
        assert crossing.weights[:, row] == pytest.approx(alone, abs=1e-5)
        token = int(logits[0, 0].argmax())
        labels.append(one.task.vocabularies.target.name(token))
    assert tuple(labels[:-1]) == found.axes["output"].labels[:-1]


def test_groups_and_layers_are_numbered(looked):
    one, found = looked
    layers = {group: [m.layer for m in found.maps if m.group == group] for group in ("encoder", "decoder", "cross")}
    two = [0, 1] if one.about.model == "transformer" else []
    assert layers == {"encoder": two, "decoder": two, "cross": two or [0]}


def test_everything_is_there_and_is_json(looked):
    _, found = looked
    assert found.outputs and found.steps and all(one.honesty for one in found.maps)
    assert len(found.outputs) == 3
    to_json(found)


def test_looking_changes_nothing(looked):
    one, _ = looked
    text = one.task.split("train")[1][0]
    usual = one.task.translate(one.model, [text], decoding=one.decode)
    collect(one, text)
    assert one.task.translate(one.model, [text], decoding=one.decode) == usual
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in one.model.modules())


def test_the_true_alignment_is_judged_when_the_output_is_right(task, sentence, subject):
    reference = dict(task.split("train"))[sentence]
    tokens = task.vocabularies.target.encode([reference])[0]
    said = replace(subject(), decode=lambda *_, **__: [[Hypothesis(tuple(tokens), -1.0, -1.0)]])
    found = collect(said, sentence)
    assert found.outputs[0].text == reference
    assert set(found.alignment.rates) == {one.name for one in found.maps if one.group == "cross"}
    assert all(0 <= rate["mean"] <= 1 for rate in found.alignment.rates.values())
    rows, columns = len(found.axes["output"].labels), len(found.axes["source"].labels)
    assert found.alignment.truth and all(t < rows - 1 and s < columns - 1 for t, s in found.alignment.truth)
    other = replace(subject(), decode=lambda *_, **__: [[Hypothesis((7, 8), -1.0, -1.0)]])
    assert collect(other, sentence).alignment is None


def test_a_switched_off_head_shows_as_empty(subject, sentence):
    name = "decoder.layers.0.cross_attn"
    found = collect(subject(), sentence, changes=Changes(off=((name, 1),)))
    weights = next(one.weights for one in found.maps if one.name == name)
    assert not weights[1].any() and weights[0].any()


def test_a_model_without_attention_says_so(subject, sentence):
    with pytest.raises(RegardError, match=r"seq2seq has no attention to look at; regard compare shows it beside"):
        collect(subject("seq2seq"), sentence)
    found = inspect(subject("seq2seq"), sentence)
    assert found.maps == () and found.outputs


def test_bad_input_is_one_clear_line(subject, sentence):
    with pytest.raises(DataError, match=r"has 202 tokens with the end mark; the model was trained for at most 64"):
        collect(subject(), "word " * 200)
    with pytest.raises(DataError, match=r"there is no sentence to look at; give some text"):
        collect(subject(), "  ")
    one = subject()
    strange = Subject(one.task, one.model, one.decode, About("translatoin", "transformer"))
    with pytest.raises(
        RegardError, match=r"task 'translatoin' has no reader to look inside with; did you mean 'translation'"
    ):
        collect(strange, sentence)


def test_tables_are_made_where_none_are_given(subject, sentence):
    found = collect(replace(subject(), tables=None), sentence)
    assert found.positions.scheme == "sinusoidal"
    assert [one.name for one in found.embeddings] == ["source, PCA", "source, t-SNE", "target, PCA", "target, t-SNE"]
    words = found.embeddings[0].labels
    assert set(words) >= set(found.axes["source"].labels[:-1])


def test_training_mode_is_given_back(subject, sentence):
    one = subject()
    one.model.train()
    collect(one, sentence)
    assert one.model.training


def test_a_model_of_other_scores_and_places_can_be_looked_into(task, sentence, subject):
    for changes in ({"score": "additive"}, {"position": "rotary"}, {"position": "relative"}):
        model = transformer.build(replace(transformer.TINY, **changes), task.sizes).eval()
        found = collect(replace(subject(), model=model), sentence)
        assert np.isfinite(found.maps[0].weights).all() and found.steps
