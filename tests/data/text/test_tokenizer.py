import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.data_specs import SpecialTokens
from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.data.text import byte_bpe
from regard.data.text import tokenizer as tokenizers
from regard.data.text.unicode import nfc

LEVELS = ["bpe", "unigram", "word", "char"]
TEXTS = [
    "The dog (and the cat) sleeps, doesn't it?",
    "학생은 책을 읽었어요. 그는 물을 마셨다!",
    "שלום עולם مرحبا بالعالم",
    "👩\u200d🚀 fliegt 🇰🇷 ❤️ ",
    "Über den  Wolken\tist 12.5 % é ▁ <pad> <end>",
    unicodedata.normalize("NFD", "한국어를 배운다 é"),
]
ALPHABET = "".join(sorted({character for text in TEXTS for character in nfc(text) + text}))
known = st.text(st.sampled_from(ALPHABET), max_size=40)


@pytest.fixture(scope="module", params=LEVELS)
def tokenizer(request):
    return tokenizers.train(TEXTS * 3, level=request.param, size=400)


subwords = pytest.mark.parametrize("level", ["bpe", "unigram", "char"])


@subwords
def test_text_comes_back_exactly(level):
    tokenizer = tokenizers.train(TEXTS * 3, level=level, size=400)

    @given(known)
    def check(text):
        characters = set(nfc("".join(TEXTS)))
        if set(nfc(text)) <= characters:
            assert tokenizer.decode(tokenizer.encode([text])) == [nfc(text)]

    check()


@pytest.mark.parametrize("text", [*TEXTS, " ", "   The  dog  sleeps ", ""])
def test_seen_text_comes_back_at_every_level(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode([text])) == [nfc(text)]


def test_offsets_index_the_raw_text(tokenizer):
    for text in TEXTS:
        for piece in tokenizer.pieces(text):
            if piece.start < piece.stop:
                assert nfc(text[piece.start : piece.stop]) == piece.text


def test_tokens_have_offsets_into_the_text_they_decode_to(tokenizer):
    for text in TEXTS:
        (row,) = tokenizer.encode([text])
        (decoded,) = tokenizer.decode([row])
        pieces = tokenizer.pieces_of(row)
        assert [piece.token for piece in pieces] == row
        for piece, other in zip(pieces, tokenizer.pieces(decoded), strict=True):
            assert (piece.text, piece.start, piece.stop) == (other.text, other.start, other.stop)
    assert tokenizer.pieces_of([]) == []


def test_tokens_of_bytes_are_named_by_what_they_spell():
    tokenizer = byte_bpe.train(["The dog sleeps, 한국어를 배운다"] * 4, size=400)
    (row,) = tokenizer.encode(["The dog 한국어를"])
    assert [tokenizer.token_text(token) for token in row] == ["The", "dog", "한국어를"]
    assert [piece[1:] for piece in tokenizer.decode_with_offsets(row)] == [
        ("The", 0, 3),
        ("dog", 4, 7),
        ("한국어를", 8, 12),
    ]
    assert tokenizer.token_text(3) == "<end>"


def test_offsets_cover_all_but_spaces(tokenizer):
    for text in TEXTS:
        covered = {i for piece in tokenizer.pieces(text) for i in range(piece.start, piece.stop)}
        assert {i for i, character in enumerate(text) if not character.isspace()} <= covered


def test_offsets_of_decomposed_text_cover_whole_syllables():
    tokenizer = tokenizers.train(["한국어 학교"], level="char", size=50)
    raw = unicodedata.normalize("NFD", "한국")
    assert [(p.text, p.start, p.stop) for p in tokenizer.encode_with_offsets(raw)] == [("한", 0, 3), ("국", 3, 6)]


def test_pieces_are_the_tokens_that_encode_gives(tokenizer):
    for text in TEXTS:
        assert [piece.token for piece in tokenizer.pieces(text)] == tokenizer.encode([text])[0]


def test_saved_is_reloaded_to_the_same_numbers(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "tokenizer.json")
    again = tokenizers.load(tmp_path / "tokenizer.json")
    assert again.vocab_size == tokenizer.size and again.encode(TEXTS) == tokenizer.encode(TEXTS)
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "tokenizer.json").read_bytes()


@pytest.mark.parametrize("level", LEVELS)
def test_the_same_text_makes_the_same_vocabulary(level):
    first, *others = (tokenizers.train(TEXTS, level=level, size=300).engine.to_str() for _ in range(5))
    assert all(other == first for other in others)


@pytest.mark.parametrize("text", ["<pad>", "<end> <start>", "<unknown> ", "a<pad> b"])
def test_no_text_is_encoded_to_a_mark(tokenizer, text):
    marks = SpecialTokens()
    assert not {marks.pad, marks.bos, marks.eos} & set(tokenizer.encode([text])[0])


def test_marks_vanish_and_the_unknown_shows(tokenizer):
    unknown = tokenizer.encode(["曜"])[0]
    assert SpecialTokens.unk in unknown and "\ufffd" in tokenizer.decode([unknown])[0]
    row = tokenizer.encode(["The dog"])[0]
    assert tokenizer.decode([[2, *row, 3, 0, 0]]) == ["The dog"]


def test_marks_are_the_first_four(tokenizer):
    assert [tokenizer.name(i) for i in range(4)] == ["<pad>", "<unknown>", "<start>", "<end>"]


def test_lowercase_folds_before_the_vocabulary():
    tokenizer = tokenizers.train(["The THE the"], level="word", size=50, lowercase=True)
    assert tokenizer.encode(["THE"]) == tokenizer.encode(["the"]) and tokenizer.decode(tokenizer.encode(["The"])) == [
        "the"
    ]


def test_words_are_cut_at_punctuation():
    tokenizer = tokenizers.train(["Yes, (no) it's."], level="word", size=50)
    assert [p.text for p in tokenizer.encode_with_offsets("Yes, (no) it's.")] == [
        "Yes",
        ",",
        "(",
        "no",
        ")",
        "it",
        "'",
        "s",
        ".",
    ]


def test_rare_words_are_unknown():
    tokenizer = tokenizers.train(["a a b", "a c a"], level="word", size=50, minimum=2)
    assert tokenizer.encode(["a b"])[0][1] == SpecialTokens.unk


@subwords
def test_a_vocabulary_smaller_than_the_alphabet_is_an_error(level):
    message = r"vocabulary=10 is smaller than the alphabet of (9|10) characters and 4 marks; set it to at least 1[34]"
    with pytest.raises(ConfigError, match=message):
        tokenizers.train(["abcdefghi"], level=level, size=10)


@subwords
def test_a_vocabulary_just_large_enough_will_do(level):
    needed = 4 + len({*"hello world"})
    tokenizer = tokenizers.train(["hello world"], level=level, size=needed)
    assert tokenizer.vocab_size <= needed and tokenizer.decode(tokenizer.encode(["hello world"])) == ["hello world"]


def test_a_vocabulary_without_room_for_a_word_is_an_error():
    with pytest.raises(ConfigError, match="vocabulary=4 is smaller than one word and 4 marks; set it to at least 5"):
        tokenizers.train(["word"], level="word", size=4)


def test_no_text_is_an_error():
    with pytest.raises(DataError, match="there is no text to make a vocabulary from"):
        tokenizers.train([], level="bpe", size=100)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"tokenizer.json: no such tokenizer file; is the run folder complete\?"):
        tokenizers.load(tmp_path / "tokenizer.json")


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"tokenizer.json: not a tokenizer file: "):
        tokenizers.load(tmp_path / "tokenizer.json")


def test_a_file_that_cannot_encode_is_refused_when_it_is_loaded(tmp_path):
    state = json.loads(tokenizers.train(["a b"], level="word", size=9).engine.to_str())
    state["model"]["unk_token"] = "nowhere"
    (tmp_path / "tokenizer.json").write_text(json.dumps(state), encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"tokenizer.json: not a tokenizer file: .*Missing \[UNK\] token"):
        tokenizers.load(tmp_path / "tokenizer.json")


@pytest.mark.parametrize("method", ["encode", "pieces"])
def test_half_a_character_is_refused(tokenizer, method):
    given = {"encode": ["whole", "a\ud83d"], "pieces": "a\ud83d"}[method]
    with pytest.raises(DataError, match=r"letter 2 is half of a character \(U\+D83D\); give whole Unicode text"):
        getattr(tokenizer, method)(given)


def test_a_foreign_file_is_refused(tmp_path):
    tokenizer = tokenizers.train(["a b"], level="word", size=9)
    state = json.loads(tokenizer.engine.to_str())
    state["model"]["vocab"] = {"x": 0, "y": 1, "<unknown> ": 2, "z": 3}
    (tmp_path / "tokenizer.json").write_text(json.dumps(state), encoding="utf-8")
    with pytest.raises(
        CheckpointError, match=r"tokens 0 to 3 are not <pad>, <unknown>, <start>, <end>; not made by regard"
    ):
        tokenizers.load(tmp_path / "tokenizer.json")


def test_a_stranger_s_tokenizer_neither_pads_nor_cuts(tmp_path):
    tokenizer = tokenizers.train(TEXTS * 3, level="word", size=400)
    tokenizer.engine.enable_padding(length=50)
    tokenizer.engine.enable_truncation(2)
    tokenizer.save(tmp_path / "t.json")
    again = tokenizers.load(tmp_path / "t.json")
    assert again.decode(again.encode(TEXTS[:1])) == TEXTS[:1]


@pytest.mark.parametrize("letters", ["ab", "가나", "12", "-="])
def test_an_unbroken_line_is_cut_before_subwords_are_made(letters):
    """Tokens never stretch over so many letters, so that the time grows with the line and not with its square."""
    line = letters * 5000
    made = tokenizers.train([line], level="bpe", size=300)
    assert max(len(made.token_text(token)) for token in range(made.vocab_size)) <= tokenizers.MAX_WORD_CHARS
    assert made.decode(made.encode([line])) == [line]
    pieces = [piece for piece, _ in made.engine.pre_tokenizer.pre_tokenize_str(line)]
    assert max(map(len, pieces)) == tokenizers.MAX_WORD_CHARS and len(pieces) == 10_000 // tokenizers.MAX_WORD_CHARS
