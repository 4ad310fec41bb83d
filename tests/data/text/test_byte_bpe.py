import pytest

from regard.core.errors import ConfigError, DataError
from regard.data.text import byte_bpe
from regard.data.text import tokenizer as tokenizers
from regard.data.text.tokenizer_engine import MAX_WORD_CHARS

TEXTS = ["the cat sat on the mat, the cat!", "그 고양이는 매트에 앉았다."]


@pytest.mark.parametrize(
    "text", ["the cat", " two  spaces\n\tand a tab ", "안녕 👩‍👩‍👧 <end> ü", "שלום", "never seen: 漢字"]
)
def test_every_text_is_decoded_exactly_without_unknown_tokens(text):
    tokenizer = byte_bpe.train(TEXTS, size=300)
    (row,) = tokenizer.encode([text])
    assert tokenizer.decode([row]) == [text]
    assert min(row) >= len(tokenizers.SPECIAL_TOKENS)


def test_frequent_words_become_one_token():
    tokenizer = byte_bpe.train(TEXTS * 5, size=400, minimum=2)
    assert len(tokenizer.encode([" the"])[0]) == 1


def test_lowercase_is_stored_in_the_file(tmp_path):
    tokenizer = byte_bpe.train(TEXTS, size=300, lowercase=True)
    tokenizer.save(tmp_path / "tokenizer.json")
    again = tokenizers.load(tmp_path / "tokenizer.json")
    assert again.encode(["THE Cat"]) == tokenizer.encode(["the cat"])


def test_a_vocabulary_without_room_for_all_bytes_is_refused():
    with pytest.raises(
        ConfigError, match="vocab_size=200 is smaller than 256 bytes and 4 special tokens; set it to at least 260"
    ):
        byte_bpe.train(TEXTS, size=200)


def test_no_text_is_refused():
    with pytest.raises(DataError, match="there is no text to build a vocabulary from"):
        byte_bpe.train(["", " "], size=300)


def test_a_line_without_spaces_is_split_before_training():
    line = "ab" * 5000
    tokenizer = byte_bpe.train([line], size=300)
    assert tokenizer.decode(tokenizer.encode([line])) == [line]
    pieces = [piece for piece, _ in tokenizer.engine.pre_tokenizer.pre_tokenize_str(line)]
    assert max(map(len, pieces)) == MAX_WORD_CHARS
