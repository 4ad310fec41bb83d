import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.core.data_specs import MaskedLMSpec
from regard.core.errors import CheckpointError
from regard.data.text import masking
from regard.data.text import tokenizer as tokenizers
from regard.models import bert, xlnet
from regard.tasks.masked_language import fill
from regard.tasks.masked_language.fill import Candidate, best_fillings

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def tokenizer():
    return masking.with_mask(tokenizers.train(["the cat sat on the mat and a dog barked"], level="word", size=30))


@pytest.fixture(params=[bert, xlnet], ids=["bert", "xlnet"])
def model(request, tokenizer):
    torch.manual_seed(0)
    change = {"segments": 0} if request.param is bert else {}
    config = type(request.param.TINY)(**{**vars(request.param.TINY), **change})
    return request.param.build(config, MaskedLMSpec(tokenizer.size, 16, masking.special_tokens_of(tokenizer))).eval()


@given(st.lists(st.lists(st.floats(-9, 0), min_size=1, max_size=4), min_size=1, max_size=3), st.integers(1, 9))
def test_the_best_ways_are_those_of_trying_all(scores, count):
    candidates = [[Candidate(i, score) for i, score in enumerate(sorted(some, reverse=True))] for some in scores]
    sums = sorted((sum(each.score for each in way) for way in itertools.product(*candidates)), reverse=True)
    found = best_fillings(candidates, count)
    assert [score for score, _ in found] == pytest.approx(sums[:count])
    assert len({tokens for _, tokens in found}) == len(found)


@torch.no_grad()
def test_marks_never_fill_a_gap_and_batches_are_as_single_texts(model, tokenizer):
    texts = [masking.parse_masked_text(text, tokenizer) for text in ("the [MASK] sat on the [MASK]", "a [MASK]")]
    together = fill.predict_masks(model, texts, tokenizer, CPU)
    assert [len(scores) for scores in together] == [2, 1]
    for text, scores in zip(texts, together, strict=True):
        (alone,) = fill.predict_masks(model, [text], tokenizer, CPU)
        torch.testing.assert_close(alone, scores)
        assert (scores[:, [0, 1, 2, 3, tokenizer.size - 1]] == -torch.inf).all()
        torch.testing.assert_close(scores.exp().sum(dim=1), torch.ones(len(scores)))


@torch.no_grad()
def test_answers_are_texts_without_gaps_best_first(model, tokenizer):
    text = masking.parse_masked_text("the [MASK] sat on the [MASK]", tokenizer)
    (scores,) = fill.predict_masks(model, [text], tokenizer, CPU)
    answers = fill.to_predictions(text, scores, 4, tokenizer)
    assert len({answer.text for answer in answers}) == 4
    assert all("mask" not in answer.text and answer.text.startswith("the ") for answer in answers)
    assert [answer.score for answer in answers] == sorted((answer.score for answer in answers), reverse=True)
    assert answers[0].score == pytest.approx(float(scores.amax(dim=1).sum()), abs=1e-5)
    assert [len(words) for words in answers[0].value] == [4, 4]


@torch.no_grad()
def test_what_is_shown_agrees_with_the_answers(model, tokenizer):
    text = masking.parse_masked_text("the [MASK] sat on the [MASK]", tokenizer)
    shown = fill.build_inspectable(model, text, 3, tokenizer=tokenizer, device=CPU)
    (scores,) = fill.predict_masks(model, [text], tokenizer, CPU)
    assert [output.text for output in shown.outputs] == [
        a.text for a in fill.to_predictions(text, scores, 3, tokenizer)
    ]
    torch.testing.assert_close(shown.replay(), scores)
    assert shown.predicted_ids.tolist() == scores.argmax(dim=1).tolist()
    assert [item.text for item in shown.axes["text"].items] == "<start> the [MASK] sat on the [MASK] <end>".split()
    assert shown.extra["masked"]["gaps"] == [2, 6] and shown.title == "the ___ sat on the ___"
    assert len(shown.outputs[0].tokens) == len(shown.axes["gaps"].items) == 2
    without = shown.ablations["text"]()
    assert without.shape == (8, *scores.shape)
    torch.testing.assert_close(without[2], scores)  # a gap has nothing to be taken away
    assert not torch.allclose(without[1].exp(), scores.exp())


def test_a_blank_fills_no_gap():
    lines = tokenizers.train(["the cat\nsat on\nthe mat\n"], level="word", size=30)
    tokenizer = masking.with_mask(lines)
    assert [tokenizer.token_text(number) for number in fill.excluded_tokens(tokenizer).tolist()][4:-1] == ["\n"]


def test_damaged_weights_are_said(model, tokenizer):
    model.readout.bias.data[0] = torch.nan
    text = masking.parse_masked_text("one [MASK]", tokenizer)
    with pytest.raises(CheckpointError, match=r"is not finite; its weights are damaged or diverged in training$"):
        fill.predict_masks(model, [text], tokenizer, torch.device("cpu"))
