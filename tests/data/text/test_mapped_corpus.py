import json
import subprocess
import sys

import numpy as np
import pytest

from regard.core.data_specs import SpecialTokens
from regard.core.errors import DataError
from regard.data.text import mapped_corpus, pair_corpus
from regard.data.text import tokenizer as tokenizers
from regard.data.text.pair_files import Pairs

ROWS = [("a b", "c"), ("d", "e f"), ("", "x"), ("a", "b"), ("c d e", "f")]


@pytest.fixture
def tokenizer():
    return tokenizers.train(["a b c d e f"], level="word", size=20)


def pairs(rows=ROWS, key="one"):
    return Pairs("made up", lambda: iter(rows), key=key)


def test_mapped_is_the_same_as_in_memory(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(pair_corpus, "CHUNK", 2)
    made = mapped_corpus.load_or_build(pairs(), tokenizer, tokenizer, folder=tmp_path)
    held = pair_corpus.encode_in_memory(ROWS, tokenizer, tokenizer)
    examples = np.array([3, 0, 1])
    for one, other in zip(made.batch(examples, SpecialTokens()), held.batch(examples, SpecialTokens()), strict=True):
        assert one.tokens.equal(other.tokens) and one.lengths.equal(other.lengths)
    assert made.blank == held.blank == 1 and made.num_pairs == held.num_pairs
    assert isinstance(made.source.tokens, np.memmap)


def test_it_is_made_once(tokenizer, tmp_path):
    mapped_corpus.load_or_build(pairs(), tokenizer, tokenizer, folder=tmp_path)

    def read():
        raise AssertionError("the text was read again")

    again = mapped_corpus.load_or_build(Pairs("made up", read, key="one"), tokenizer, tokenizer, folder=tmp_path)
    assert again.num_pairs == 4 and len(list(tmp_path.iterdir())) == 1


def test_other_data_or_vocabulary_is_another_corpus(tokenizer, tmp_path):
    other = tokenizers.train(["f f e d c b a"], level="word", size=20)
    mapped_corpus.load_or_build(pairs(), tokenizer, tokenizer, folder=tmp_path)
    mapped_corpus.load_or_build(pairs(key="two"), tokenizer, tokenizer, folder=tmp_path)
    mapped_corpus.load_or_build(pairs(), tokenizer, other, folder=tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


def test_nothing_half_written_stays(tokenizer, tmp_path):
    def read():
        yield "a", "b"
        raise DataError("the disk caught fire")

    with pytest.raises(DataError, match="the disk caught fire"):
        mapped_corpus.load_or_build(Pairs("made up", read), tokenizer, tokenizer, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_an_error(tokenizer, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(DataError, match="cannot be written: Not a directory"):
        mapped_corpus.load_or_build(pairs(), tokenizer, tokenizer, folder=tmp_path / "file")


@pytest.mark.parametrize("name", [mapped_corpus.HEADER, *mapped_corpus.ARRAYS])
def test_a_file_cut_short_is_an_error(tokenizer, tmp_path, name):
    mapped_corpus.load_or_build(pairs(), tokenizer, tokenizer, folder=tmp_path)
    place = next(tmp_path.iterdir())
    (place / name).write_bytes((place / name).read_bytes()[:-1])
    with pytest.raises(DataError, match="damaged or of another version; delete this folder, and it is made anew"):
        mapped_corpus.load_or_build(pairs(), tokenizer, tokenizer, folder=tmp_path)


def test_another_version_is_an_error(tokenizer, tmp_path):
    mapped_corpus.load_or_build(pairs(), tokenizer, tokenizer, folder=tmp_path)
    header = next(tmp_path.iterdir()) / mapped_corpus.HEADER
    header.write_text(json.dumps(json.loads(header.read_text()) | {"version": 99}), encoding="utf-8")
    with pytest.raises(DataError, match="of another version"):
        mapped_corpus.load(header.parent)


def test_empty_rows_alone_are_mapped(tokenizer, tmp_path):
    made = mapped_corpus.load_or_build(pairs(rows=[("", "a")]), tokenizer, tokenizer, folder=tmp_path)
    assert made.num_pairs == 0 and made.blank == 1


def test_another_process_reads_it(tokenizer, tmp_path):
    made = mapped_corpus.load_or_build(pairs(), tokenizer, tokenizer, folder=tmp_path)
    place = next(tmp_path.iterdir())
    code = f"import pathlib, regard.data.text.mapped_corpus as m; print(m.load(pathlib.Path({str(place)!r})).target.tokens)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == str(made.target.tokens)
