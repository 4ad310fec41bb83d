import numpy as np
import pytest
import torch

from regard.core.data_specs import SpecialTokens
from regard.data.text import masking, tokenizer
from regard.data.text.token_stream import TokenStream
from regard.tasks.masked_language.masked_rows import SALTS_PER_POSITION, MaskedRows, MaskedRowSpec

TOKENS = SpecialTokens(mask=60)
TEXT = np.arange(200) % 50 + 4


class ThreeTokenWords:
    """Word boundaries where every word has three tokens."""

    def word_ids(self, row):
        return np.arange(len(row)) // 3


def masked_rows(*, pairs="none", whole_words=False, length=20):
    return MaskedRows(
        TokenStream(TEXT, 0), MaskedRowSpec(length, 0.2, 61, TOKENS, whole_words, pairs), ThreeTokenWords()
    )


def test_a_row_is_a_text_between_bos_and_eos_which_are_never_masked():
    rows = masked_rows()
    batch, is_next = rows.collate(np.array([5, 50]) * SALTS_PER_POSITION + 7)
    assert batch.tokens.shape == (2, 20) and len(is_next) == 0
    assert (batch.tokens[:, 0] == TOKENS.bos).all() and (batch.tokens[:, -1] == TOKENS.eos).all()
    assert batch.tokens[0, 1:-1].tolist() == TEXT[5:23].tolist()
    assert not batch.prediction_mask[:, [0, -1]].any() and (batch.prediction_mask.sum(dim=1) == 4).all()
    assert torch.equal(batch.input_tokens[~batch.prediction_mask], batch.tokens[~batch.prediction_mask])
    assert torch.equal(batch.prediction_order > 0, batch.prediction_mask) and not batch.segments.any()


def test_masks_depend_on_the_example_id_only_and_change_with_the_salt():
    rows, examples = masked_rows(), np.array([5, 50]) * SALTS_PER_POSITION
    batch, _ = rows.collate(examples + 3)
    alone, _ = rows.collate(examples[1:] + 3)
    salted, _ = rows.collate(examples + 4)
    assert torch.equal(batch.prediction_mask[1:], alone.prediction_mask)
    assert torch.equal(batch.input_tokens[1:], alone.input_tokens)
    assert not torch.equal(batch.prediction_mask, salted.prediction_mask)


def test_whole_words_are_masked_together():
    batch, _ = masked_rows(whole_words=True).collate(np.array([5]) * SALTS_PER_POSITION + 1)
    inner = batch.prediction_mask[0, 3:18].view(-1, 3)
    assert torch.equal(inner.all(dim=1), inner.any(dim=1))


@pytest.mark.parametrize("pairs", ["next", "order"])
def test_half_of_the_pairs_are_negative(pairs):
    rows = masked_rows(pairs=pairs)
    batch, is_next = rows.collate(np.full(200, 20) * SALTS_PER_POSITION + np.arange(200))
    assert 60 < int(is_next.sum()) < 140
    for tokens, segments, follows in zip(batch.tokens, batch.segments, is_next, strict=True):
        second = int(segments.argmax())
        assert tokens[second - 1] == TOKENS.eos and tokens[-1] == TOKENS.eos
        first, last = tokens[1 : second - 1].tolist(), tokens[second:-1].tolist()
        assert len(first) + len(last) == 17 and min(len(first), len(last)) >= 5
        if follows:
            assert first + last == TEXT[20:37].tolist()
        elif pairs == "order":
            assert last + first == TEXT[20:37].tolist()
        else:
            assert first == TEXT[20 : 20 + len(first)].tolist()


def test_epochs_have_different_positions_and_masks():
    rows = masked_rows()
    first, second = (np.sort(np.concatenate(rows.epoch_batches(4, seed=1, epoch=epoch))) for epoch in (0, 1))
    repeated = np.sort(np.concatenate(rows.epoch_batches(4, seed=1, epoch=0)))
    assert np.array_equal(first, repeated) and set(first) != set(second)
    assert (first // SALTS_PER_POSITION).max() <= 200 - 18 and np.diff(first // SALTS_PER_POSITION).min() == 18


def test_evaluation_covers_the_text_once():
    rows = masked_rows()
    positions = np.concatenate(rows.sequential_batches(3, max_tokens=100)) // SALTS_PER_POSITION
    assert positions.tolist() == list(range(0, 100 - 17, 18))
    assert rows.sequential_batches(3, max_tokens=1)[0].tolist() == [0]
    assert (
        len(MaskedRows(TokenStream(TEXT[:9], 0), rows.spec, ThreeTokenWords()).sequential_batches(3, max_tokens=100))
        == 0
    )


def test_word_boundaries_of_a_tokenizer():
    chars = masking.with_mask(tokenizer.train(["abc def"], level="char", size=20))
    row = np.array([2, *chars.encode(["abc def"])[0], 3])
    assert masking.WordBoundaries(chars).word_ids(row).tolist() == [0, 1, 1, 1, 2, 3, 3, 3, 4]
