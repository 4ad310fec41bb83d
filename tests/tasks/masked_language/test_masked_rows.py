import numpy as np
import pytest
import torch

from regard.core.data_specs import SpecialTokens
from regard.data.text import masking, tokenizer
from regard.data.text.token_stream import TokenStream
from regard.tasks.masked_language.masked_rows import SALTS_PER_POSITION, MaskedRows, MaskedRowSpec

MARKS = SpecialTokens(mask=60)
TEXT = np.arange(200) % 50 + 4


class Threes:
    """Every word has three tokens."""

    def numbers(self, row):
        return np.arange(len(row)) // 3


def rows(*, pairs="none", whole_words=False, length=20):
    return MaskedRows(TokenStream(TEXT, 0), MaskedRowSpec(length, 0.2, 61, MARKS, whole_words, pairs), Threes())


def test_a_row_is_a_text_between_marks_and_gaps_are_no_marks():
    made = rows()
    gaps, follows = made.collate(np.array([5, 50]) * SALTS_PER_POSITION + 7)
    assert gaps.tokens.shape == (2, 20) and len(follows) == 0
    assert (gaps.tokens[:, 0] == MARKS.bos).all() and (gaps.tokens[:, -1] == MARKS.eos).all()
    assert gaps.tokens[0, 1:-1].tolist() == TEXT[5:23].tolist()
    assert not gaps.prediction_mask[:, [0, -1]].any() and (gaps.prediction_mask.sum(dim=1) == 4).all()
    assert torch.equal(gaps.input_tokens[~gaps.prediction_mask], gaps.tokens[~gaps.prediction_mask])
    assert torch.equal(gaps.prediction_order > 0, gaps.prediction_mask) and not gaps.segments.any()


def test_gaps_follow_from_the_number_alone_and_change_with_the_salt():
    made, numbers = rows(), np.array([5, 50]) * SALTS_PER_POSITION
    one, _ = made.collate(numbers + 3)
    alone, _ = made.collate(numbers[1:] + 3)
    other, _ = made.collate(numbers + 4)
    assert torch.equal(one.prediction_mask[1:], alone.prediction_mask) and torch.equal(
        one.input_tokens[1:], alone.input_tokens
    )
    assert not torch.equal(one.prediction_mask, other.prediction_mask)


def test_whole_words_are_covered_together():
    gaps, _ = rows(whole_words=True).collate(np.array([5]) * SALTS_PER_POSITION + 1)
    inner = gaps.prediction_mask[0, 3:18].view(-1, 3)
    assert torch.equal(inner.all(dim=1), inner.any(dim=1))


@pytest.mark.parametrize("pairs", ["next", "order"])
def test_half_of_the_second_texts_do_not_follow(pairs):
    made = rows(pairs=pairs)
    gaps, follows = made.collate(np.full(200, 20) * SALTS_PER_POSITION + np.arange(200))
    assert 60 < int(follows.sum()) < 140
    for tokens_, segments, follow in zip(gaps.tokens, gaps.segments, follows, strict=True):
        second = int(segments.argmax())
        assert tokens_[second - 1] == MARKS.eos and tokens_[-1] == MARKS.eos
        first, last = tokens_[1 : second - 1].tolist(), tokens_[second:-1].tolist()
        assert len(first) + len(last) == 17 and min(len(first), len(last)) >= 5
        if follow:
            assert first + last == TEXT[20:37].tolist()
        elif pairs == "order":
            assert last + first == TEXT[20:37].tolist()
        else:
            assert first == TEXT[20 : 20 + len(first)].tolist()


def test_epochs_have_other_places_and_other_gaps():
    made = rows()
    first, second = (np.sort(np.concatenate(made.epoch_batches(4, seed=1, epoch=epoch))) for epoch in (0, 1))
    again = np.sort(np.concatenate(made.epoch_batches(4, seed=1, epoch=0)))
    assert np.array_equal(first, again) and set(first) != set(second)
    assert (first // SALTS_PER_POSITION).max() <= 200 - 18 and np.diff(first // SALTS_PER_POSITION).min() == 18


def test_evaluation_goes_over_the_text_once():
    made = rows()
    places = np.concatenate(made.sequential_batches(3, max_tokens=100)) // SALTS_PER_POSITION
    assert places.tolist() == list(range(0, 100 - 17, 18))
    assert made.sequential_batches(3, max_tokens=1)[0].tolist() == [0]
    assert len(MaskedRows(TokenStream(TEXT[:9], 0), made.spec, Threes()).sequential_batches(3, max_tokens=100)) == 0


def test_words_of_a_tokenizer_are_used():
    made = masking.with_mask(tokenizer.train(["abc def"], level="char", size=20))
    row = np.array([2, *made.encode(["abc def"])[0], 3])
    assert masking.WordBoundaries(made).word_ids(row).tolist() == [0, 1, 1, 1, 2, 3, 3, 3, 4]
