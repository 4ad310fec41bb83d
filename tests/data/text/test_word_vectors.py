import gzip

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from regard.core.errors import DataError, FileError
from regard.data.text import tokenizer as tokenizers
from regard.data.text import word_vectors
from regard.data.text.word_vectors import WordVectors, init_embeddings, read, to_binary, to_text

WORDS = ["the", "cat", "고양이", "co-op", "<s>"]
MADE = WordVectors(WORDS, np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32))


def glove(made=MADE):
    return to_text(made).split(b"\n", 1)[1]


@pytest.mark.parametrize(
    ("name", "content"),
    [("x.vec", to_text(MADE)), ("x.bin", to_binary(MADE)), ("x.txt", glove())],
    ids=lambda x: str(x)[:5],
)
@pytest.mark.parametrize("packed", [False, True])
def test_every_format_is_known_by_its_content(tmp_path, name, content, packed):
    path = tmp_path / (f"{name}.gz" if packed else name)
    path.write_bytes(gzip.compress(content) if packed else content)
    found = read(path)
    assert found.words == WORDS
    np.testing.assert_allclose(found.matrix, MADE.matrix, rtol=1e-5)
    some = read(path, {"cat", "dog"})
    assert some.words == ["cat"] and some.matrix.shape == (1, 7)


def test_binary_without_line_ends_and_wide_text_are_read(tmp_path):
    wide = WordVectors(["a", "b"], np.random.default_rng(0).normal(size=(2, 900)).astype(np.float32))
    (tmp_path / "x.bin").write_bytes(to_binary(wide).replace(b"\nb ", b"b "))
    (tmp_path / "x.vec").write_bytes(to_text(wide))
    for path in tmp_path.iterdir():
        np.testing.assert_allclose(read(path).matrix, wide.matrix, rtol=1e-4)


def test_words_with_spaces_are_read_as_glove_has_them(tmp_path):
    (tmp_path / "x.txt").write_text("the 1 2 3\n. . . 4 5 6\n")
    assert read(tmp_path / "x.txt").words == ["the", ". . ."]


def test_a_run_folder_is_read_like_a_file(tmp_path):
    tokenizer = tokenizers.train(["the cat"], level="word", size=9)
    tokenizer.save(tmp_path / "tokenizer.json")
    weight = torch.randn(tokenizer.vocab_size, 3)
    save_file({"vectors.weight": weight}, tmp_path / "model.safetensors")
    found = read(tmp_path)
    assert sorted(found.words) == ["cat", "the"]
    np.testing.assert_array_equal(found.matrix, weight[4:].numpy())
    (tmp_path / "model.safetensors").write_bytes(b"no")
    with pytest.raises(DataError, match="no run that learned word vectors"):
        read(tmp_path)


def table(rows=4, width=7):
    torch.manual_seed(0)
    return torch.nn.Parameter(torch.randn(rows, width))


def test_rows_of_known_words_get_their_vectors_at_the_size_of_the_table(tmp_path):
    path = tmp_path / "x.vec"
    path.write_bytes(to_text(WordVectors(WORDS, 50 * MADE.matrix)))
    weight, before = table(), table().detach()
    coverage = init_embeddings(weight, ["", "Cat", "dog", "the"], path)
    assert (coverage.num_covered, coverage.num_words) == (2, 3)
    assert coverage.describe().endswith("x.vec: vectors for 2 of 3 words (67%)")
    assert torch.equal(weight[[0, 2]], before[[0, 2]])
    cosines = torch.nn.functional.cosine_similarity(weight[[1, 3]], torch.from_numpy(MADE.matrix[[1, 0]]))
    torch.testing.assert_close(cosines.detach(), torch.ones(2))
    torch.testing.assert_close(weight[[1, 3]].square().mean(), before[[1, 3]].square().mean())


def test_nothing_known_leaves_the_table_as_it_is(tmp_path):
    (tmp_path / "x.vec").write_bytes(to_text(MADE))
    weight = table()
    assert init_embeddings(weight, ["", "", "dog", "owl"], tmp_path / "x.vec").num_covered == 0
    assert torch.equal(weight, table())


def test_a_number_that_is_not_finite_is_named_with_its_word(tmp_path):
    (tmp_path / "x.vec").write_text("2 2\na 1 2\nthe 1 nan\n")
    with pytest.raises(
        DataError, match=r"x\.vec: the vector of 'the' has a number that is not finite; take the word out"
    ):
        init_embeddings(table(width=2), ["the", "a"], tmp_path / "x.vec")


def test_a_width_that_does_not_fit_is_one_clear_line(tmp_path):
    (tmp_path / "x.vec").write_bytes(to_text(MADE))
    words = "its vectors have width 7, but the table of embeddings has 9; set the width of the model to 7"
    with pytest.raises(DataError, match=words):
        init_embeddings(table(width=9), ["the"], tmp_path / "x.vec")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"5 7\n" + b"\n".join(glove().split(b"\n")[:3]) + b"\n", "cut off: 5 vectors are promised, but it has 3"),
        (to_text(MADE)[:-30], r":6: \d numbers where 7 are expected; the file is cut off or damaged"),
        (glove()[:-30], r":5: \d numbers where 7 are expected; the file is cut off or damaged"),
        (to_binary(MADE)[:-9], "cut off: 5 vectors are promised, but it ends in number 5"),
        (to_binary(MADE)[:-40], "cut off: 5 vectors are promised, but it ends in number 4"),
        (b"a 1 2 3\nb 1 x 3\n", ":2: not a vector: could not convert"),
        (b"hello\n", "not a file of word vectors: its first line is neither"),
        (b"", "not a file of word vectors"),
    ],
)
def test_a_file_that_is_cut_off_or_no_such_file_is_one_clear_line(tmp_path, content, words):
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(DataError, match=words):
        read(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(DataError, match="no such file of word vectors"):
        read(tmp_path / "nowhere")
    (tmp_path / "x.gz").write_bytes(gzip.compress(to_text(MADE))[:-20])
    with pytest.raises(DataError, match=r"x.gz: cannot be read"):
        read(tmp_path / "x.gz")


@pytest.mark.parametrize("word", ["", "two words"])
def test_a_word_that_no_format_can_hold_is_refused(word):
    with pytest.raises(FileError, match="cannot be written: it has a space or no letters"):
        word_vectors.to_text(WordVectors([word], MADE.matrix[:1]))
