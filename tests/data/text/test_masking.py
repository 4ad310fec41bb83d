from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.data_specs import SpecialTokens
from regard.core.errors import DataError
from regard.data.text import byte_bpe, masking
from regard.data.text import tokenizer as tokenizers

TEXT = "the cats sat on the mat, and the dogs barked. <mask> [MASK]\n" * 4
LEVELS = ("char", "word", "bpe", "unigram", "bytes")


@cache
def train_tokenizer(level):
    return byte_bpe.train([TEXT], size=300) if level == "bytes" else tokenizers.train([TEXT], level=level, size=60)


@pytest.mark.parametrize("level", LEVELS)
def test_the_mask_token_is_the_last_and_no_other_id_changes(level, tmp_path):
    plain = train_tokenizer(level)
    masked = masking.with_mask(plain)
    assert masking.special_tokens_of(plain).mask is None
    assert (
        masking.special_tokens_of(masked) == SpecialTokens(mask=plain.vocab_size)
        and masked.vocab_size == plain.vocab_size + 1
    )
    assert masked.encode([TEXT]) == plain.encode([TEXT])
    assert masking.with_mask(masked) is masked
    masked.save(tmp_path / "x.json")
    assert masking.special_tokens_of(tokenizers.load(tmp_path / "x.json")).mask == plain.vocab_size


@pytest.mark.parametrize("level", LEVELS)
def test_all_tokens_of_a_word_have_its_index(level):
    tokenizer = train_tokenizer(level)
    (row,) = tokenizer.encode(["the cats, on"])
    word_ids = masking.WordBoundaries(tokenizer).word_ids(np.array(row))
    words = {}
    for token, word_id in zip(row, word_ids, strict=True):
        words[word_id] = words.get(word_id, "") + tokenizer.decode([[1, token]])[0][1:]
    assert [word.strip() for word in words.values() if word.strip()] == ["the", "cats", ",", "on"]


def test_an_empty_row_has_no_words():
    assert len(masking.WordBoundaries(train_tokenizer("char")).word_ids(np.zeros(0, dtype=np.int64))) == 0


@given(st.lists(st.integers(-1, 6), min_size=1, max_size=40), st.floats(0.05, 1), st.integers(0, 9))
def test_entire_units_are_masked_up_to_the_share(units, share, seed):
    units = np.array(units)
    mask = masking.sample_mask(units, share, np.random.default_rng(seed))
    eligible = units >= 0
    assert not mask[~eligible].any()
    for unit in set(units[eligible].tolist()):
        assert len(set(mask[units == unit].tolist())) == 1
    budget = max(1, round(share * eligible.sum()))
    largest = max((int((units == unit).sum()) for unit in set(units[eligible].tolist())), default=0)
    assert min(budget, eligible.sum()) <= mask.sum() <= budget + max(0, largest - 1)


def test_masked_tokens_are_mostly_replaced_by_the_mask_token():
    row, mask = np.full(20_000, 7), np.arange(20_000) < 10_000
    masked = masking.apply_mask(row, mask, SpecialTokens(mask=49), 50, np.random.default_rng(0))
    assert (masked[10_000:] == 7).all()
    covered, replaced = masked[:10_000] == 49, (masked[:10_000] != 49) & (masked[:10_000] != 7)
    assert 0.78 < covered.mean() < 0.82 and 0.08 < replaced.mean() < 0.12
    assert masked[:10_000][replaced].min() >= 4


def test_the_prediction_order_is_a_permutation_of_the_masked_positions():
    mask = np.array([True, False, True, True])
    order = masking.random_order(mask, np.random.default_rng(0))
    assert order[1] == 0 and sorted(order[mask]) == [1, 2, 3]


@pytest.mark.parametrize("level", ["word", "bpe", "unigram", "bytes"])
@pytest.mark.parametrize(
    ("text", "filled_text"),
    [
        ("the [MASK] sat", "the cats sat"),
        ("[MASK] cats sat", "the cats sat"),
        ("the cats [MASK].", "the cats sat."),
        ("the <mask> [mask] on", "the cats sat on"),
        ("the [MASK], and", "the cats, and"),
        ("the cats [MASK]", "the cats sat"),
    ],
)
def test_a_mask_replaces_a_word_and_the_space_before_it(level, text, filled_text):
    tokenizer = masking.with_mask(
        tokenizers.train([TEXT] * 9, level=level, size=90) if level != "bytes" else train_tokenizer(level)
    )
    parsed = masking.parse_masked_text(text, tokenizer)
    assert all(parsed.tokens[position] == tokenizer.vocab_size - 1 for position in parsed.mask_positions)
    filled = list(parsed.tokens)
    for word in filled_text.replace(".", "").replace(",", "").split():
        if word not in text.split():
            needs_space = level == "bytes" and parsed.mask_positions[0]
            (row,) = tokenizer.encode([f" {word}" if needs_space else word])
            position = filled.index(tokenizer.vocab_size - 1)
            filled[position : position + 1] = row
    assert tokenizer.decode([filled])[0] == filled_text


def test_a_masked_character_does_not_include_a_space():
    tokenizer = masking.with_mask(train_tokenizer("char"))
    parsed = masking.parse_masked_text("the c[MASK]t s[MASK]t", tokenizer)
    (row,) = tokenizer.encode(["the cat sat"])
    assert parsed.mask_positions == (5, 9) and [
        t for i, t in enumerate(parsed.tokens) if i not in parsed.mask_positions
    ] == [t for i, t in enumerate(row) if i not in parsed.mask_positions]


def test_a_text_without_a_mask_is_an_error():
    message = r"no \[MASK\] in 'the cats sat'; write \[MASK\] for each word to predict"
    text = masking.parse_masked_text("the cats sat", masking.with_mask(train_tokenizer("word")))
    assert len(text.tokens) == 3
    with pytest.raises(DataError, match=message):
        masking.check_has_mask(text)
