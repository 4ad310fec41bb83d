import json
from functools import cache
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.data_specs import SpecialTokens
from regard.core.errors import DataError, FileError
from regard.data.text import byte_bpe, token_stream
from regard.data.text import tokenizer as tokenizers
from regard.data.text.plain_text import Documents

TEXT = "the cat sat  on the mat.\n\nA dog, a cat; and\ta mat  \n" * 6
LEVELS = ("char", "word", "bpe", "unigram", "bytes")


@cache
def train_tokenizer(level):
    if level == "bytes":
        return byte_bpe.train([TEXT], size=300)
    return tokenizers.train([TEXT], level=level, size=60)


@pytest.mark.parametrize("level", LEVELS)
@given(size=st.integers(5, 80))
def test_the_tokens_of_the_pieces_are_those_of_the_text(level, size):
    tokenizer = train_tokenizer(level)
    prefixed = tokenizer.engine.normalizer.normalize_str("a") == " a"
    pieces = token_stream.split_text(TEXT, max(size, 8), keep_space=not prefixed)
    assert list(chain.from_iterable(tokenizer.encode(pieces))) == tokenizer.encode([TEXT])[0]
    assert len(pieces) > 1


def test_a_text_without_spaces_is_split_anywhere():
    assert token_stream.split_text("x" * 10, 4, keep_space=True) == ["xxxx", "xxxx", "xx"]


@pytest.mark.parametrize("pieces", [1, 64])
def test_documents_are_concatenated_with_eos_between(monkeypatch, pieces):
    monkeypatch.setattr(token_stream, "BATCH_PIECES", pieces)
    tokenizer = train_tokenizer("char")
    stream = token_stream.encode_in_memory(["cat", " ", "a mat", "dog"], tokenizer)
    rows = tokenizer.encode(["cat", "a mat", "dog"])
    assert stream.tokens.tolist() == [*rows[0], SpecialTokens.eos, *rows[1], SpecialTokens.eos, *rows[2]]
    assert stream.num_characters == 11


def test_mapped_is_the_same_as_in_memory_and_built_once(tmp_path):
    tokenizer, texts = train_tokenizer("bpe"), [TEXT, "the cat", TEXT]
    mapped = token_stream.load_or_build(
        Documents("x", lambda: iter(texts), key="k"), tokenizer, folder=tmp_path / "new"
    )
    in_memory = token_stream.encode_in_memory(texts, tokenizer)
    assert isinstance(mapped.tokens, np.memmap)
    assert np.array_equal(mapped.tokens, in_memory.tokens) and mapped.num_characters == in_memory.num_characters

    def read():
        raise AssertionError("the text was read again")

    again = token_stream.load_or_build(Documents("x", read, key="k"), tokenizer, folder=tmp_path / "new")
    assert np.array_equal(again.tokens, in_memory.tokens)
    starts = np.array([3, 0])
    assert again.crops(starts, 5).tolist() == [in_memory.tokens[3:8].tolist(), in_memory.tokens[:5].tolist()]


def test_a_damaged_file_is_an_error(tmp_path):
    documents = Documents("x", lambda: iter([TEXT]), key="k")
    token_stream.load_or_build(documents, train_tokenizer("char"), folder=tmp_path)
    (header,) = tmp_path.glob("*.json")
    header.write_text(json.dumps({"type": "<u2", "count": 3, "characters": 1}))
    with pytest.raises(DataError, match=r"damaged; delete it and .*json, and both are created again"):
        token_stream.load_or_build(documents, train_tokenizer("char"), folder=tmp_path)


def test_no_text_leaves_no_header(tmp_path):
    with pytest.raises(DataError, match="there is no text to encode"):
        token_stream.load_or_build(Documents("x", lambda: iter([" "])), train_tokenizer("char"), folder=tmp_path)
    assert not list(tmp_path.glob("*.json"))


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="file: cannot be created"):
        token_stream.load_or_build(
            Documents("x", lambda: iter(["a"])), train_tokenizer("char"), folder=tmp_path / "file"
        )


@given(length=st.integers(4, 200), rows=st.integers(1, 5), epoch=st.integers(0, 3))
def test_an_epoch_uses_almost_every_token_once(length, rows, epoch):
    context = 4
    batches = token_stream.epoch_batches(length, context=context, batch_size=rows, seed=1, epoch=epoch)
    again = token_stream.epoch_batches(length, context=context, batch_size=rows, seed=1, epoch=epoch)
    assert all(np.array_equal(a, b) for a, b in zip(batches, again, strict=True))
    starts = np.sort(np.concatenate(batches))
    assert len(starts) and (np.diff(starts) == context).all()
    assert starts[0] < context and starts[-1] <= length - context < starts[-1] + context


@given(length=st.integers(1, 300), size=st.integers(1, 40))
def test_windows_score_every_token_once_after_half_a_window(length, size):
    windows = token_stream.evaluation_windows(length, size)
    scored = [position for window in windows for position in range(window.scored_from, window.stop)]
    assert scored == list(range(length))
    for window in windows:
        assert window.stop - window.start <= size
        assert window.start == 0 or window.scored_from - window.start >= size // 2
