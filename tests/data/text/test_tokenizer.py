import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core import trust
from regard.core.data_specs import SpecialTokens
from regard.core.errors import CheckpointError, ConfigError, DataError, TrustError
from regard.data.text import byte_bpe
from regard.data.text import tokenizer as tokenizers
from regard.data.text.tokenizer_engine import MAX_WORD_CHARS
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
known_text = st.text(st.sampled_from(ALPHABET), max_size=40)


@pytest.fixture(scope="module", params=LEVELS)
def tokenizer(request):
    return tokenizers.train(TEXTS * 3, level=request.param, size=400)


subwords = pytest.mark.parametrize("level", ["bpe", "unigram", "char"])


@subwords
def test_decoding_is_exact(level):
    tokenizer = tokenizers.train(TEXTS * 3, level=level, size=400)

    @given(known_text)
    def check(text):
        characters = set(nfc("".join(TEXTS)))
        if set(nfc(text)) <= characters:
            assert tokenizer.decode(tokenizer.encode([text])) == [nfc(text)]

    check()


@pytest.mark.parametrize("text", [*TEXTS, " ", "   The  dog  sleeps ", ""])
def test_training_text_is_decoded_exactly_at_every_level(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode([text])) == [nfc(text)]


def test_offsets_index_the_raw_text(tokenizer):
    for text in TEXTS:
        for piece in tokenizer.encode_with_offsets(text):
            if piece.start < piece.stop:
                assert nfc(text[piece.start : piece.stop]) == piece.text


def test_tokens_have_offsets_into_the_text_they_decode_to(tokenizer):
    for text in TEXTS:
        (row,) = tokenizer.encode([text])
        (decoded,) = tokenizer.decode([row])
        pieces = tokenizer.decode_with_offsets(row)
        assert [piece.token for piece in pieces] == row
        for piece, expected in zip(pieces, tokenizer.encode_with_offsets(decoded), strict=True):
            assert (piece.text, piece.start, piece.stop) == (expected.text, expected.start, expected.stop)
    assert tokenizer.decode_with_offsets([]) == []


def test_byte_tokens_are_displayed_as_text():
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
        covered = {i for piece in tokenizer.encode_with_offsets(text) for i in range(piece.start, piece.stop)}
        assert {i for i, character in enumerate(text) if not character.isspace()} <= covered


def test_offsets_of_decomposed_text_cover_entire_syllables():
    tokenizer = tokenizers.train(["한국어 학교"], level="char", size=50)
    raw = unicodedata.normalize("NFD", "한국")
    assert [(p.text, p.start, p.stop) for p in tokenizer.encode_with_offsets(raw)] == [("한", 0, 3), ("국", 3, 6)]


def test_offsets_have_the_tokens_of_encode(tokenizer):
    for text in TEXTS:
        assert [piece.token for piece in tokenizer.encode_with_offsets(text)] == tokenizer.encode([text])[0]


def test_a_saved_tokenizer_has_the_same_ids(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "tokenizer.json")
    again = tokenizers.load(tmp_path / "tokenizer.json")
    assert again.vocab_size == tokenizer.vocab_size and again.encode(TEXTS) == tokenizer.encode(TEXTS)
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "tokenizer.json").read_bytes()


@pytest.mark.parametrize("level", LEVELS)
def test_training_is_deterministic(level):
    first, *repeats = (tokenizers.train(TEXTS, level=level, size=300).engine.to_str() for _ in range(5))
    assert all(expected == first for expected in repeats)


@pytest.mark.parametrize("text", ["<pad>", "<end> <start>", "<unknown> ", "a<pad> b"])
def test_no_text_is_encoded_to_a_special_token(tokenizer, text):
    special_tokens = SpecialTokens()
    assert not {special_tokens.pad, special_tokens.bos, special_tokens.eos} & set(tokenizer.encode([text])[0])


def test_decoding_removes_special_tokens_but_shows_unknown_ones(tokenizer):
    unknown = tokenizer.encode(["曜"])[0]
    assert SpecialTokens.unk in unknown and "\ufffd" in tokenizer.decode([unknown])[0]
    row = tokenizer.encode(["The dog"])[0]
    assert tokenizer.decode([[2, *row, 3, 0, 0]]) == ["The dog"]


def test_special_tokens_have_the_first_four_ids(tokenizer):
    assert [tokenizer.token_text(i) for i in range(4)] == ["<pad>", "<unknown>", "<start>", "<end>"]


def test_lowercase_applies_before_training():
    tokenizer = tokenizers.train(["The THE the"], level="word", size=50, lowercase=True)
    assert tokenizer.encode(["THE"]) == tokenizer.encode(["the"]) and tokenizer.decode(tokenizer.encode(["The"])) == [
        "the"
    ]


def test_words_are_split_at_punctuation():
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
    message = r"vocab_size=10 is smaller than the alphabet of (9|10) characters and 4 special tokens; set it to at"
    with pytest.raises(ConfigError, match=message):
        tokenizers.train(["abcdefghi"], level=level, size=10)


@subwords
def test_the_smallest_possible_vocabulary_is_accepted(level):
    needed = 4 + len({*"hello world"})
    tokenizer = tokenizers.train(["hello world"], level=level, size=needed)
    assert tokenizer.vocab_size <= needed and tokenizer.decode(tokenizer.encode(["hello world"])) == ["hello world"]


def test_a_vocabulary_without_room_for_a_word_is_an_error():
    with pytest.raises(
        ConfigError, match="vocab_size=4 is smaller than one word and 4 special tokens; set it to at least 5"
    ):
        tokenizers.train(["word"], level="word", size=4)


def test_no_text_is_an_error():
    with pytest.raises(DataError, match="there is no text to build a vocabulary from"):
        tokenizers.train([], level="bpe", size=100)


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(CheckpointError, match=r"tokenizer.json: no such tokenizer file; is the run folder complete\?"):
        tokenizers.load(tmp_path / "tokenizer.json")


def test_a_damaged_file_is_an_error(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"tokenizer.json: not a tokenizer file: "):
        tokenizers.load(tmp_path / "tokenizer.json")


def test_a_file_that_cannot_encode_is_refused_when_it_is_loaded(tmp_path):
    state = json.loads(tokenizers.train(["a b"], level="word", size=9).engine.to_str())
    state["model"]["unk_token"] = "nowhere"
    (tmp_path / "tokenizer.json").write_text(json.dumps(state), encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"tokenizer.json: not a tokenizer file: .*Missing \[UNK\] token"):
        tokenizers.load(tmp_path / "tokenizer.json")


@pytest.mark.parametrize("method", ["encode", "encode_with_offsets"])
def test_a_lone_surrogate_is_refused(tokenizer, method):
    argument = {"encode": ["valid", "a\ud83d"], "encode_with_offsets": "a\ud83d"}[method]
    with pytest.raises(DataError, match=r"character 2 is a lone surrogate \(U\+D83D\); provide valid Unicode text"):
        getattr(tokenizer, method)(argument)


def test_a_foreign_file_is_refused(tmp_path):
    tokenizer = tokenizers.train(["a b"], level="word", size=9)
    state = json.loads(tokenizer.engine.to_str())
    state["model"]["vocab"] = {"x": 0, "y": 1, "<unknown> ": 2, "z": 3}
    (tmp_path / "tokenizer.json").write_text(json.dumps(state), encoding="utf-8")
    with pytest.raises(
        CheckpointError, match=r"tokens 0 to 3 are not <pad>, <unknown>, <start>, <end>; not created by regard"
    ):
        tokenizers.load(tmp_path / "tokenizer.json")


def test_an_untrusted_tokenizer_neither_pads_nor_truncates(tmp_path):
    tokenizer = tokenizers.train(TEXTS * 3, level="word", size=400)
    tokenizer.engine.enable_padding(length=50)
    tokenizer.engine.enable_truncation(2)
    tokenizer.save(tmp_path / "t.json")
    again = tokenizers.load(tmp_path / "t.json")
    assert again.decode(again.encode(TEXTS[:1])) == TEXTS[:1]


@pytest.mark.parametrize("characters", ["ab", "가나", "12", "-="])
def test_a_line_without_spaces_is_split_before_training(characters):
    """Tokens have a maximum length, so that training time is linear, not quadratic, in the length of the line."""
    line = characters * 5000
    tokenizer = tokenizers.train([line], level="bpe", size=300)
    assert max(len(tokenizer.token_text(token)) for token in range(tokenizer.vocab_size)) <= MAX_WORD_CHARS
    assert tokenizer.decode(tokenizer.encode([line])) == [line]
    pieces = [piece for piece, _ in tokenizer.engine.pre_tokenizer.pre_tokenize_str(line)]
    assert max(map(len, pieces)) == MAX_WORD_CHARS and len(pieces) == 10_000 // MAX_WORD_CHARS


HOSTILE = {
    "the pre_tokenizer 'Split' with a pattern of its own": {
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    },
    "the normalizer 'Replace'": {
        "normalizer": {
            "type": "Sequence",
            "normalizers": [{"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 4}] * 8,
        }
    },
    "a sequence of 9 parts": {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 9}},
    "the normalizer 'Prepend' with a prepend of more than 4 characters": {
        "normalizer": {"type": "Prepend", "prepend": "a" * 100_000}
    },
    "the normalizer 'Sequence'": {
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Sequence", "normalizers": []}]}
    },
    "a post-processor": {"post_processor": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}},
    "a token of 5,000 characters": {
        "added_tokens": [
            {"id": 9999, "content": "b" * 5000, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": False}
        ]
    },
}  # fmt: skip


def edited_file(tokenizer, tmp_path, changes):
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes), encoding="utf-8")
    return path


@pytest.mark.parametrize("component", HOSTILE)
def test_components_that_regard_does_not_write_are_refused_in_untrusted_runs(tmp_path, component):
    tokenizer = tokenizers.train(["aa ab"] * 20, level="bpe", size=50)
    path = edited_file(tokenizer, tmp_path, HOSTILE[component])
    with trust.trust_scope(tmp_path, trusted=False), pytest.raises(TrustError) as refused:
        tokenizers.load(path)
    assert str(refused.value).startswith(f"{path}: contains {component}")
    assert "which regard does not write" in str(refused.value) and "use --trust" in str(refused.value)


@pytest.mark.parametrize("level", ["bpe", "unigram", "word", "char"])
def test_the_tokenizers_of_regard_are_accepted_in_untrusted_runs(tmp_path, level):
    trained = tokenizers.train(["aa ab", "ba b"] * 20, level=level, size=60, lowercase=True)
    trained.save(tmp_path / "tokenizer.json")
    byte_bpe.train(["aa ab"] * 20, size=270).save(tmp_path / "bytes.json")
    with trust.trust_scope(tmp_path, trusted=False):
        assert tokenizers.load(tmp_path / "tokenizer.json").encode(["ab"]) == trained.encode(["ab"])
        assert tokenizers.load(tmp_path / "bytes.json").encode(["ab"])


def test_a_panic_of_the_library_is_an_error(tmp_path):
    tokenizer = tokenizers.train(["aa ab"] * 20, level="bpe", size=50)
    split = HOSTILE["the pre_tokenizer 'Split' with a pattern of its own"]
    trusted = tokenizers.load(edited_file(tokenizer, tmp_path, split))
    text = "a" * 32 + "b They sleep."
    for call in (trusted.encode, lambda texts: trusted.encode_with_offsets(texts[0])):
        with pytest.raises(DataError, match=r"^the tokenizer failed \(.*\); use a shorter text"):
            call([text])
    assert trusted.encode(["ab"])


@pytest.mark.parametrize("level", ["char", "word"])
def test_an_unknown_token_is_displayed_with_the_characters_of_the_text(level):
    trained = tokenizers.train(["the cat sat on the mat"] * 3, level=level, size=40)
    pieces = trained.encode_with_offsets("the 아기 sat")
    assert SpecialTokens.unk in [piece.token for piece in pieces]
    shown = "".join(piece.text for piece in pieces)
    assert "아기" in shown and "unknown" not in shown
