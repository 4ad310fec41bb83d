"""The laws hold for whole models of any task, and a broken copy is found out."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from regard.attention.attend import Attend
from regard.core.data_specs import MusicSpec, Seq2SeqSpec, SpecialTokens
from regard.core.errors import RegardError
from regard.core.task import Prediction
from regard.inspection import invariants


def broken(verdicts):
    return [verdict.law[0] for verdict in verdicts if not verdict.kept]


@pytest.mark.parametrize("name", ["transformer", "luong", "seq2seq"])
def test_a_decoder_keeps_all_laws(subject, name):
    one = subject(name)
    verdicts = invariants.check(one.task, one.model, one.decoding)
    assert [verdict.invariant[0] for verdict in verdicts] == ["1", "2", "2", "3", "3", "4", "5", "6"]
    assert broken(verdicts) == []
    assert not one.model.training


def test_a_task_without_decoding_keeps_those_that_apply(documents, pictures):
    for one in (documents, pictures):
        verdicts = invariants.check(one.task, one.model, None)
        assert [verdict.invariant[0] for verdict in verdicts] == ["2", "3", "4"] and broken(verdicts) == []


def test_answers_that_depend_on_the_batch_are_found_out():
    def crowded(inputs):
        return [Prediction("a", -1.0 * len(inputs)) for _ in inputs]

    assert invariants.batch_invariance(crowded, [1, 2]) == invariants.CheckResult(
        "2 answers in a batch = single answers", False, "largest difference 1.0e+00"
    )
    words = iter("abcdefgh")
    verdict = invariants.batch_invariance(lambda inputs: [Prediction(next(words)) for _ in inputs], [1, 2])
    assert not verdict.passed and verdict.detail == "'a' and 'c'"


def test_a_wrong_kernel_is_found_out(subject, monkeypatch):
    one = subject()
    forward = Attend.forward
    monkeypatch.setattr(Attend, "forward", lambda self, *args, **kwargs: 1.01 * forward(self, *args, **kwargs))
    assert "3" in broken(invariants.check(one.task, one.model, one.decoding))


def test_a_look_that_changes_something_is_found_out(documents):
    shown = documents.show(documents.task.examples[0])
    count = iter(range(9))
    unsteady = SimpleNamespace(replay=lambda: shown.replay() + next(count))
    verdict = invariants.recording_invariance(documents.model, unsteady)
    assert not verdict.passed and verdict.detail == "looked at, the answers differ by 1.0e+00"


def test_looking_ahead_is_found_out(subject, monkeypatch):
    one = subject()
    given = invariants.random_inputs(one.task.sizes)
    usual = one.model.features

    def ahead(tokens, state):
        features, state = usual(tokens, state)
        return features + features.mean(dim=1, keepdim=True), state

    monkeypatch.setattr(one.model, "features", ahead)
    assert {"1", "5"} <= set(broken(invariants.check_decoder(one.model, given)))


def test_what_a_replay_gives_to_a_decoder_is_overheard(subject, sentence):
    one = subject()
    with torch.no_grad():
        shown = one.show(sentence)
    given = invariants.record_decoder_inputs(one.model, shown, one.task.sizes.marks)
    assert given.target[0, 0] == one.task.sizes.marks.start and len(given.target[0]) == len(shown.chosen)
    assert "start" not in vars(one.model)
    assert broken(invariants.check_decoder(one.model, given)) == []


def test_decoders_of_other_kinds_of_data_are_checked_on_examples(subject, monkeypatch):
    one = subject()
    monkeypatch.setattr(one.task, "sizes", SimpleNamespace(marks=SpecialTokens(), longest=12))
    verdicts = invariants.check(one.task, one.model, one.decoding)
    assert broken(verdicts) == [] and len(verdicts) == 8


def test_random_sequences_have_no_marks_but_the_start():
    for sizes in (
        Seq2SeqSpec(source_vocab_size=9, target_vocab_size=11, max_length=12),
        MusicSpec(num_conditions=9, vocab_size=11, max_length=12),
    ):
        given = invariants.random_inputs(sizes)
        assert (given.target[:, 0] == sizes.special_tokens.bos).all() and (
            given.target[:, 1:] > sizes.special_tokens.eos
        ).all()
        assert given.source.lengths[0] == given.source.tokens.shape[1] == given.target.shape[1]
        assert given.target.max() < 11 and given.source.tokens.max() < 9


def test_without_examples_there_may_be_nothing_to_check(documents, monkeypatch):
    monkeypatch.setattr(documents.task, "examples", ())
    with pytest.raises(RegardError, match=r"^there is nothing to check the model on; the task has no examples$"):
        invariants.check(documents.task, documents.model, None)
