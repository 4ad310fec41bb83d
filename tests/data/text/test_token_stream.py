import json
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


def tokenizer(level):
    if level == "bytes":
        return byte_bpe.train([TEXT], size=300)
    return tokenizers.train([TEXT], level=level, size=60)


@pytest.mark.parametrize("level", LEVELS)
@given(size=st.integers(5, 80))
def test_the_tokens_of_the_pieces_are_those_of_the_whole(level, size):
    made = tokenizer(level)
    prefixed = made.engine.normalizer.normalize_str("a") == " a"
    pieces = token_stream.split_text(TEXT, max(size, 8), keep_space=not prefixed)
    assert list(chain.from_iterable(made.encode(pieces))) == made.encode([TEXT])[0]
    assert len(pieces) > 1


def test_a_text_without_spaces_is_cut_anywhere():
    assert token_stream.split_text("x" * 10, 4, keep_space=True) == ["xxxx", "xxxx", "xx"]


@pytest.mark.parametrize("pieces", [1, 64])
def test_documents_stand_end_to_end_with_marks_between(monkeypatch, pieces):
    monkeypatch.setattr(token_stream, "PIECES", pieces)
    made = tokenizer("char")
    found = token_stream.encode_in_memory(["cat", " ", "a mat", "dog"], made)
    rows = made.encode(["cat", "a mat", "dog"])
    assert found.tokens.tolist() == [*rows[0], SpecialTokens.eos, *rows[1], SpecialTokens.eos, *rows[2]]
    assert found.num_characters == 11


def test_mapped_is_the_same_as_in_memory_and_made_once(tmp_path):
    made, texts = tokenizer("bpe"), [TEXT, "the cat", TEXT]
    first = token_stream.load_or_build(Documents("x", lambda: iter(texts), key="k"), made, folder=tmp_path / "new")
    held = token_stream.encode_in_memory(texts, made)
    assert isinstance(first.tokens, np.memmap)
    assert np.array_equal(first.tokens, held.tokens) and first.num_characters == held.num_characters

    def read():
        raise AssertionError("the text was read again")

    again = token_stream.load_or_build(Documents("x", read, key="k"), made, folder=tmp_path / "new")
    assert np.array_equal(again.tokens, held.tokens)
    places = np.array([3, 0])
    assert again.crops(places, 5).tolist() == [held.tokens[3:8].tolist(), held.tokens[:5].tolist()]


def test_damage_is_named(tmp_path):
    documents = Documents("x", lambda: iter([TEXT]), key="k")
    token_stream.load_or_build(documents, tokenizer("char"), folder=tmp_path)
    (header,) = tmp_path.glob("*.json")
    header.write_text(json.dumps({"type": "<u2", "count": 3, "characters": 1}))
    with pytest.raises(DataError, match=r"damaged; delete it and .*json, and they are made anew"):
        token_stream.load_or_build(documents, tokenizer("char"), folder=tmp_path)


def test_no_text_leaves_nothing_to_be_found(tmp_path):
    with pytest.raises(DataError, match="there is no text to encode"):
        token_stream.load_or_build(Documents("x", lambda: iter([" "])), tokenizer("char"), folder=tmp_path)
    assert not list(tmp_path.glob("*.json"))


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="file: cannot be made"):
        token_stream.load_or_build(Documents("x", lambda: iter(["a"])), tokenizer("char"), folder=tmp_path / "file")


@given(length=st.integers(4, 200), rows=st.integers(1, 5), epoch=st.integers(0, 3))
def test_an_epoch_sees_almost_every_token_once(length, rows, epoch):
    context = 4
    batches = token_stream.epoch_batches(length, context=context, batch_size=rows, seed=1, epoch=epoch)
    again = token_stream.epoch_batches(length, context=context, batch_size=rows, seed=1, epoch=epoch)
    assert all(np.array_equal(a, b) for a, b in zip(batches, again, strict=True))
    places = np.sort(np.concatenate(batches))
    assert len(places) and (np.diff(places) == context).all()
    assert places[0] < context and places[-1] <= length - context < places[-1] + context


@given(length=st.integers(1, 300), size=st.integers(1, 40))
def test_windows_score_every_token_once_after_half_a_window(length, size):
    parts = token_stream.evaluation_windows(length, size)
    scored = [place for part in parts for place in range(part.scored_from, part.stop)]
    assert scored == list(range(length))
    for part in parts:
        assert part.stop - part.start <= size
        assert part.start == 0 or part.scored_from - part.start >= size // 2
