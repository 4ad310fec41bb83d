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


def tokenizer(level):
    return byte_bpe.train([TEXT], size=300) if level == "bytes" else tokenizers.train([TEXT], level=level, size=60)


@pytest.mark.parametrize("level", LEVELS)
def test_the_mask_mark_comes_last_and_no_number_moves(level, tmp_path):
    plain = tokenizer(level)
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
def test_words_are_numbered_over_their_tokens(level):
    made = tokenizer(level)
    (row,) = made.encode(["the cats, on"])
    numbers = masking.WordBoundaries(made).word_ids(np.array(row))
    words = {}
    for token, number in zip(row, numbers, strict=True):
        words[number] = words.get(number, "") + made.decode([[1, token]])[0][1:]
    assert [word.strip() for word in words.values() if word.strip()] == ["the", "cats", ",", "on"]


def test_an_empty_row_has_no_words():
    assert len(masking.WordBoundaries(tokenizer("char")).word_ids(np.zeros(0, dtype=np.int64))) == 0


@given(st.lists(st.integers(-1, 6), min_size=1, max_size=40), st.floats(0.05, 1), st.integers(0, 9))
def test_gaps_are_whole_units_up_to_the_share(units, share, seed):
    units = np.array(units)
    chosen = masking.sample_mask(units, share, np.random.default_rng(seed))
    there = units >= 0
    assert not chosen[~there].any()
    for unit in set(units[there].tolist()):
        assert len(set(chosen[units == unit].tolist())) == 1
    budget = max(1, round(share * there.sum()))
    largest = max((int((units == unit).sum()) for unit in set(units[there].tolist())), default=0)
    assert min(budget, there.sum()) <= chosen.sum() <= budget + max(0, largest - 1)


def test_most_gaps_are_covered_some_replaced_some_left():
    row, chosen = np.full(20_000, 7), np.arange(20_000) < 10_000
    seen = masking.apply_mask(row, chosen, SpecialTokens(mask=49), 50, np.random.default_rng(0))
    assert (seen[10_000:] == 7).all()
    covered, other = seen[:10_000] == 49, (seen[:10_000] != 49) & (seen[:10_000] != 7)
    assert 0.78 < covered.mean() < 0.82 and 0.08 < other.mean() < 0.12
    assert seen[:10_000][other].min() >= 4


def test_turns_are_an_order_of_the_gaps():
    chosen = np.array([True, False, True, True])
    order = masking.random_order(chosen, np.random.default_rng(0))
    assert order[1] == 0 and sorted(order[chosen]) == [1, 2, 3]


@pytest.mark.parametrize("level", ["word", "bpe", "unigram", "bytes"])
@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("the [MASK] sat", "the cats sat"),
        ("[MASK] cats sat", "the cats sat"),
        ("the cats [MASK].", "the cats sat."),
        ("the <mask> [mask] on", "the cats sat on"),
        ("the [MASK], and", "the cats, and"),
        ("the cats [MASK]", "the cats sat"),
    ],
)
def test_a_gap_stands_for_a_word_with_the_space_before_it(level, text, whole):
    made = masking.with_mask(
        tokenizers.train([TEXT] * 9, level=level, size=90) if level != "bytes" else tokenizer(level)
    )
    found = masking.parse_masked_text(text, made)
    assert all(found.tokens[place] == made.vocab_size - 1 for place in found.mask_positions)
    words = {"cats": " cats", "sat": " sat", "the": " the"}
    filled, gone = list(found.tokens), whole
    for word in whole.replace(".", "").replace(",", "").split():
        if word not in text.split():
            row = (
                made.encode([word])[0]
                if not (level == "bytes" and found.mask_positions[0])
                else made.encode([words[word]])[0]
            )
            place = filled.index(made.vocab_size - 1)
            filled[place : place + 1] = row
    assert made.decode([filled])[0] == gone


def test_gaps_of_characters_take_no_space_along():
    made = masking.with_mask(tokenizer("char"))
    found = masking.parse_masked_text("the c[MASK]t s[MASK]t", made)
    (row,) = made.encode(["the cat sat"])
    assert found.mask_positions == (5, 9) and [
        t for i, t in enumerate(found.tokens) if i not in found.mask_positions
    ] == [t for i, t in enumerate(row) if i not in found.mask_positions]


def test_a_text_without_a_gap_is_one_clear_line():
    words = r"no \[MASK\] in 'the cats sat'; write \[MASK\] where a word is to be found"
    with pytest.raises(DataError, match=words):
        masking.parse_masked_text("the cats sat", masking.with_mask(tokenizer("word")))
