"""Placeholders: copied words are replaced in both texts and restored, in storage as in memory."""

import pytest

from regard.core.errors import CheckpointError
from regard.data.examples import Examples
from regard.data.text import placeholders
from regard.data.text.placeholders import MaskedText, Placeholders

PAIRS = [
    ("Return true if PyBool_Type matches.", "PyBool_Type이 일치하면 참을 돌려줍니다."),
    ("Call os.path.join and PyBool_Type.", "os.path.join과 PyBool_Type을 호출합니다."),
    ("Return a list.", "리스트를 돌려줍니다."),
    ("A list of str.", "list는 str의 것입니다."),
]
MASKING = placeholders.learn(PAIRS)


def test_copied_words_become_placeholders_in_both_texts():
    assert MASKING.mask_pair(PAIRS[1]) == ("Call ① and ②.", "①과 ②을 호출합니다.")
    assert MASKING.mask_pair(PAIRS[2]) == PAIRS[2]


def test_a_word_is_copied_if_half_of_the_targets_repeat_it_or_if_it_is_new():
    assert "list" not in MASKING.translated and "Return" in MASKING.translated
    masked = MASKING.mask("Return a list of numpy.ndarray.")
    assert masked == MaskedText("Return a ① of ②.", ("list", "numpy.ndarray"))
    assert masked.mask("numpy.ndarray의 list") == "②의 ①"


def test_a_training_pair_has_placeholders_only_for_words_that_its_target_repeats():
    assert MASKING.mask_pair(("Return new_name.", "새 이름을 돌려줍니다.")) == (
        "Return new_name.",
        "새 이름을 돌려줍니다.",
    )


@pytest.mark.parametrize("pair", PAIRS)
def test_restoring_is_the_inverse(pair):
    masked = MASKING.mask(pair[0])
    assert masked.restore(masked.text) == pair[0] and masked.restore(masked.mask(pair[1])) == pair[1]


def test_a_repeated_word_has_one_placeholder():
    assert MASKING.mask("NULL or NULL") == MaskedText("① or ①", ("NULL",)) or "or" not in MASKING.translated
    assert MASKING.mask("NULL, NULL").text == "①, ①"


def test_only_placeholders_of_the_training_pairs_are_used():
    assert MASKING.symbols == "①②"
    assert MASKING.mask("aa1 bb1 cc1") == MaskedText("① ② cc1", ("aa1", "bb1"))


def test_symbols_of_the_text_itself_are_numbers():
    assert Placeholders(["7"]).mask("⑦").text == "7"
    assert MaskedText("①", ("x1",)).mask("x1 ②") == "① 2"


def test_a_placeholder_without_a_word_is_removed():
    assert MaskedText("①", ("x1",)).restore("②는 ① ② 객체 ②") == "는 x1 객체"


def test_accented_words_are_complete_words():
    assert placeholders.WORD.findall("Müller's Bücher 한글x") == ["Müller's", "Bücher", "x"]


def test_masked_pairs_are_read_again_with_a_key_of_their_own():
    pairs = Examples("here", lambda: iter(PAIRS), key="a")
    masked = MASKING.mask_pairs(pairs)
    assert list(masked) == list(masked) == [MASKING.mask_pair(pair) for pair in PAIRS]
    assert masked.key != pairs.key and masked.key != Placeholders(()).mask_pairs(pairs).key


def test_they_are_stored_with_a_run(tmp_path):
    MASKING.save(tmp_path)
    loaded = placeholders.load(tmp_path)
    assert (loaded.translated, loaded.symbols) == (MASKING.translated, MASKING.symbols)


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"symbols": "ab", "translated": []}', '{"symbols": "①", "translated": 1}']
)
def test_a_damaged_file(tmp_path, text):
    (tmp_path / "placeholders.json").write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"placeholders\.json: the placeholders cannot be read"):
        placeholders.load(tmp_path)
