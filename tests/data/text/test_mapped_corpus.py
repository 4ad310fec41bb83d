import json
import subprocess
import sys

import numpy as np
import pytest

from regard.core.data_specs import SpecialTokens
from regard.core.errors import DataError, FileError
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
    monkeypatch.setattr(pair_corpus, "CHUNK_PAIRS", 2)
    mapped = mapped_corpus.load_or_build(pairs(), tokenizer, tokenizer, folder=tmp_path)
    in_memory = pair_corpus.encode_in_memory(ROWS, tokenizer, tokenizer)
    examples = np.array([3, 0, 1])
    for first, second in zip(
        mapped.batch(examples, SpecialTokens()), in_memory.batch(examples, SpecialTokens()), strict=True
    ):
        assert first.tokens.equal(second.tokens) and first.lengths.equal(second.lengths)
    assert mapped.blank == in_memory.blank == 1 and mapped.num_pairs == in_memory.num_pairs
    assert isinstance(mapped.source.tokens, np.memmap)


def test_it_is_built_once(tokenizer, tmp_path):
    mapped_corpus.load_or_build(pairs(), tokenizer, tokenizer, folder=tmp_path)

    def read():
        raise AssertionError("the text was read again")

    again = mapped_corpus.load_or_build(Pairs("made up", read, key="one"), tokenizer, tokenizer, folder=tmp_path)
    assert again.num_pairs == 4 and len(list(tmp_path.iterdir())) == 1


def test_other_data_or_vocabulary_is_another_corpus(tokenizer, tmp_path):
    second = tokenizers.train(["f f e d c b a"], level="word", size=20)
    mapped_corpus.load_or_build(pairs(), tokenizer, tokenizer, folder=tmp_path)
    mapped_corpus.load_or_build(pairs(key="two"), tokenizer, tokenizer, folder=tmp_path)
    mapped_corpus.load_or_build(pairs(), tokenizer, second, folder=tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


def test_an_incomplete_corpus_is_removed(tokenizer, tmp_path):
    def read():
        yield "a", "b"
        raise DataError("the disk caught fire")

    with pytest.raises(DataError, match="the disk caught fire"):
        mapped_corpus.load_or_build(Pairs("made up", read), tokenizer, tokenizer, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_created_is_an_error(tokenizer, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(FileError, match=r"could not be written \(Not a directory\)"):
        mapped_corpus.load_or_build(pairs(), tokenizer, tokenizer, folder=tmp_path / "file")


@pytest.mark.parametrize("name", [mapped_corpus.HEADER, *mapped_corpus.ARRAYS])
def test_a_truncated_file_is_an_error(tokenizer, tmp_path, name):
    mapped_corpus.load_or_build(pairs(), tokenizer, tokenizer, folder=tmp_path)
    folder = next(tmp_path.iterdir())
    (folder / name).write_bytes((folder / name).read_bytes()[:-1])
    with pytest.raises(DataError, match="damaged or of another version; delete this folder, and it is created again"):
        mapped_corpus.load_or_build(pairs(), tokenizer, tokenizer, folder=tmp_path)


def test_another_version_is_an_error(tokenizer, tmp_path):
    mapped_corpus.load_or_build(pairs(), tokenizer, tokenizer, folder=tmp_path)
    header = next(tmp_path.iterdir()) / mapped_corpus.HEADER
    header.write_text(json.dumps(json.loads(header.read_text()) | {"version": 99}), encoding="utf-8")
    with pytest.raises(DataError, match="of another version"):
        mapped_corpus.load(header.parent)


def test_empty_rows_alone_are_mapped(tokenizer, tmp_path):
    mapped = mapped_corpus.load_or_build(pairs(rows=[("", "a")]), tokenizer, tokenizer, folder=tmp_path)
    assert mapped.num_pairs == 0 and mapped.blank == 1


def test_another_process_reads_it(tokenizer, tmp_path):
    mapped = mapped_corpus.load_or_build(pairs(), tokenizer, tokenizer, folder=tmp_path)
    folder = next(tmp_path.iterdir())
    load = f"m.load(pathlib.Path({str(folder)!r}))"
    code = f"import pathlib, regard.data.text.mapped_corpus as m; print({load}.target.tokens)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == str(mapped.target.tokens)
