import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import CheckpointError
from regard.data.text import masking
from regard.data.text import tokenizer as tokenizers
from regard.tasks.masked_language import fill
from regard.tasks.masked_language.fill import Candidate, best_fillings

CPU = torch.device("cpu")


@given(st.lists(st.lists(st.floats(-9, 0), min_size=1, max_size=4), min_size=1, max_size=3), st.integers(1, 9))
def test_the_best_fillings_are_those_of_an_exhaustive_search(scores, count):
    candidates = [[Candidate(i, score) for i, score in enumerate(sorted(row, reverse=True))] for row in scores]
    sums = sorted((sum(item.score for item in filling) for filling in itertools.product(*candidates)), reverse=True)
    fillings = best_fillings(candidates, count)
    assert [score for score, _ in fillings] == pytest.approx(sums[:count])
    assert len({tokens for _, tokens in fillings}) == len(fillings)


@torch.no_grad()
def test_special_tokens_never_fill_a_mask_and_batches_equal_single_texts(model, tokenizer):
    texts = [masking.parse_masked_text(text, tokenizer) for text in ("the [MASK] sat on the [MASK]", "a [MASK]")]
    together = fill.predict_masks(model, texts, tokenizer, CPU)
    assert [len(scores) for scores in together] == [2, 1]
    for text, scores in zip(texts, together, strict=True):
        (alone,) = fill.predict_masks(model, [text], tokenizer, CPU)
        torch.testing.assert_close(alone, scores)
        assert (scores[:, [0, 1, 2, 3, tokenizer.vocab_size - 1]] == -torch.inf).all()
        torch.testing.assert_close(scores.exp().sum(dim=1), torch.ones(len(scores)))


@torch.no_grad()
def test_predictions_are_filled_texts_best_first(model, tokenizer):
    text = masking.parse_masked_text("the [MASK] sat on the [MASK]", tokenizer)
    (scores,) = fill.predict_masks(model, [text], tokenizer, CPU)
    predictions = fill.to_predictions(text, scores, 4, tokenizer)
    assert len({prediction.text for prediction in predictions}) == 4
    assert all("mask" not in prediction.text and prediction.text.startswith("the ") for prediction in predictions)
    assert [prediction.score for prediction in predictions] == sorted(
        (prediction.score for prediction in predictions), reverse=True
    )
    assert predictions[0].score == pytest.approx(float(scores.amax(dim=1).sum()), abs=1e-5)
    assert [len(candidates) for candidates in predictions[0].value] == [4, 4]


def test_white_space_never_fills_a_mask():
    lines = tokenizers.train(["the cat\nsat on\nthe mat\n"], level="word", size=30)
    tokenizer = masking.with_mask(lines)
    assert [tokenizer.token_text(token) for token in fill.excluded_tokens(tokenizer).tolist()][4:-1] == ["\n"]


def test_damaged_weights_are_an_error(model, tokenizer):
    model.readout.bias.data[0] = torch.nan
    text = masking.parse_masked_text("one [MASK]", tokenizer)
    with pytest.raises(CheckpointError, match=r"are not finite; the weights are damaged or training diverged$"):
        fill.predict_masks(model, [text], tokenizer, torch.device("cpu"))
