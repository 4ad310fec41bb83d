"""The invariants hold for models of any task, and violations are detected."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from regard.attention.attend import Attend
from regard.core.data_specs import MusicSpec, Seq2SeqSpec, SpecialTokens
from regard.core.errors import RegardError
from regard.core.task import Prediction
from regard.inspection import invariants


def broken(results):
    return [result.invariant[0] for result in results if not result.passed]


@pytest.mark.parametrize("name", ["transformer", "luong", "seq2seq"])
def test_a_decoder_keeps_all_laws(subject, name):
    target = subject(name)
    results = invariants.check(target.task, target.model, target.decoding)
    assert [result.invariant[0] for result in results] == ["1", "2", "2", "3", "3", "4", "5", "6"]
    assert broken(results) == []
    assert not target.model.training


def test_a_task_without_decoding_keeps_those_that_apply(documents, pictures):
    for item in (documents, pictures):
        results = invariants.check(item.task, item.model, None)
        assert [result.invariant[0] for result in results] == ["2", "3", "4"] and broken(results) == []


def test_answers_that_depend_on_the_batch_are_found_out():
    def crowded(inputs):
        return [Prediction("a", -1.0 * len(inputs)) for _ in inputs]

    assert invariants.batch_invariance(crowded, [1, 2]) == invariants.CheckResult(
        "2 batched predictions = single predictions", False, "largest difference 1.0e+00"
    )
    words = iter("abcdefgh")
    result = invariants.batch_invariance(lambda inputs: [Prediction(next(words)) for _ in inputs], [1, 2])
    assert not result.passed and result.detail == "'a' and 'c'"


def test_a_wrong_kernel_is_found_out(subject, monkeypatch):
    target = subject()
    forward = Attend.forward
    monkeypatch.setattr(Attend, "forward", lambda self, *args, **kwargs: 1.01 * forward(self, *args, **kwargs))
    assert "3" in broken(invariants.check(target.task, target.model, target.decoding))


def test_a_look_that_changes_something_is_found_out(documents):
    shown = documents.inspect(documents.task.examples[0])
    count = iter(range(9))
    unsteady = SimpleNamespace(replay=lambda: shown.replay() + next(count))
    result = invariants.recording_invariance(documents.model, unsteady)
    assert not result.passed and result.detail == "outputs differ by 1.0e+00 when recorded"


def test_looking_ahead_is_found_out(subject, monkeypatch):
    target = subject()
    inputs = invariants.random_inputs(target.task.spec)
    usual = target.model.features

    def ahead(tokens, state):
        features, state = usual(tokens, state)
        return features + features.mean(dim=1, keepdim=True), state

    monkeypatch.setattr(target.model, "features", ahead)
    assert {"1", "5"} <= set(broken(invariants.check_decoder(target.model, inputs)))


def test_what_a_replay_gives_to_a_decoder_is_overheard(subject, sentence):
    target = subject()
    with torch.no_grad():
        shown = target.inspect(sentence)
    inputs = invariants.record_decoder_inputs(target.model, shown, target.task.spec.special_tokens)
    assert inputs.target[0, 0] == target.task.spec.special_tokens.bos and len(inputs.target[0]) == len(
        shown.predicted_ids
    )
    assert "start" not in vars(target.model)
    assert broken(invariants.check_decoder(target.model, inputs)) == []


def test_decoders_of_other_kinds_of_data_are_checked_on_examples(subject, monkeypatch):
    target = subject()
    monkeypatch.setattr(target.task, "spec", SimpleNamespace(special_tokens=SpecialTokens(), max_length=12))
    results = invariants.check(target.task, target.model, target.decoding)
    assert broken(results) == [] and len(results) == 8


def test_random_sequences_have_no_marks_but_the_start():
    for sizes in (
        Seq2SeqSpec(source_vocab_size=9, target_vocab_size=11, max_length=12),
        MusicSpec(num_conditions=9, vocab_size=11, max_length=12),
    ):
        inputs = invariants.random_inputs(sizes)
        assert (inputs.target[:, 0] == sizes.special_tokens.bos).all() and (
            inputs.target[:, 1:] > sizes.special_tokens.eos
        ).all()
        assert inputs.source.lengths[0] == inputs.source.tokens.shape[1] == inputs.target.shape[1]
        assert inputs.target.max() < 11 and inputs.source.tokens.max() < 9


def test_without_examples_there_may_be_nothing_to_check(documents, monkeypatch):
    monkeypatch.setattr(documents.task, "examples", ())
    with pytest.raises(RegardError, match=r"^the model cannot be checked: the task has no examples$"):
        invariants.check(documents.task, documents.model, None)
