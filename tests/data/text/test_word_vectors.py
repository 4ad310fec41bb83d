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
VECTORS = WordVectors(WORDS, np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32))


def glove(vectors=VECTORS):
    return to_text(vectors).split(b"\n", 1)[1]


@pytest.mark.parametrize(
    ("name", "content"),
    [("x.vec", to_text(VECTORS)), ("x.bin", to_binary(VECTORS)), ("x.txt", glove())],
    ids=lambda x: str(x)[:5],
)
@pytest.mark.parametrize("compressed", [False, True])
def test_every_format_is_detected_by_its_content(tmp_path, name, content, compressed):
    path = tmp_path / (f"{name}.gz" if compressed else name)
    path.write_bytes(gzip.compress(content) if compressed else content)
    vectors = read(path)
    assert vectors.words == WORDS
    np.testing.assert_allclose(vectors.matrix, VECTORS.matrix, rtol=1e-5)
    selected = read(path, {"cat", "dog"})
    assert selected.words == ["cat"] and selected.matrix.shape == (1, 7)


def test_binary_without_line_ends_and_wide_text_are_read(tmp_path):
    wide = WordVectors(["a", "b"], np.random.default_rng(0).normal(size=(2, 900)).astype(np.float32))
    (tmp_path / "x.bin").write_bytes(to_binary(wide).replace(b"\nb ", b"b "))
    (tmp_path / "x.vec").write_bytes(to_text(wide))
    for path in tmp_path.iterdir():
        np.testing.assert_allclose(read(path).matrix, wide.matrix, rtol=1e-4)


def test_words_with_spaces_are_read_as_in_glove(tmp_path):
    (tmp_path / "x.txt").write_text("the 1 2 3\n. . . 4 5 6\n")
    assert read(tmp_path / "x.txt").words == ["the", ". . ."]


def test_a_run_folder_is_read_like_a_file(tmp_path):
    tokenizer = tokenizers.train(["the cat"], level="word", size=9)
    tokenizer.save(tmp_path / "tokenizer.json")
    weight = torch.randn(tokenizer.vocab_size, 3)
    save_file({"vectors.weight": weight}, tmp_path / "model.safetensors")
    vectors = read(tmp_path)
    assert sorted(vectors.words) == ["cat", "the"]
    np.testing.assert_array_equal(vectors.matrix, weight[4:].numpy())
    (tmp_path / "model.safetensors").write_bytes(b"no")
    with pytest.raises(DataError, match="not a run that learned word vectors"):
        read(tmp_path)


def table(rows=4, width=7):
    torch.manual_seed(0)
    return torch.nn.Parameter(torch.randn(rows, width))


def test_covered_rows_get_their_vectors_scaled_to_the_table(tmp_path):
    path = tmp_path / "x.vec"
    path.write_bytes(to_text(WordVectors(WORDS, 50 * VECTORS.matrix)))
    weight, before = table(), table().detach()
    coverage = init_embeddings(weight, ["", "Cat", "dog", "the"], path)
    assert (coverage.num_covered, coverage.num_words) == (2, 3)
    assert coverage.describe().endswith("x.vec: vectors for 2 of 3 words (67%)")
    assert torch.equal(weight[[0, 2]], before[[0, 2]])
    cosines = torch.nn.functional.cosine_similarity(weight[[1, 3]], torch.from_numpy(VECTORS.matrix[[1, 0]]))
    torch.testing.assert_close(cosines.detach(), torch.ones(2))
    torch.testing.assert_close(weight[[1, 3]].square().mean(), before[[1, 3]].square().mean())


def test_without_covered_words_the_table_is_unchanged(tmp_path):
    (tmp_path / "x.vec").write_bytes(to_text(VECTORS))
    weight = table()
    assert init_embeddings(weight, ["", "", "dog", "owl"], tmp_path / "x.vec").num_covered == 0
    assert torch.equal(weight, table())


def test_a_value_that_is_not_finite_names_its_word(tmp_path):
    (tmp_path / "x.vec").write_text("2 2\na 1 2\nthe 1 nan\n")
    with pytest.raises(DataError, match=r"x\.vec: the vector of 'the' has a value that is not finite; remove the word"):
        init_embeddings(table(width=2), ["the", "a"], tmp_path / "x.vec")


def test_a_wrong_width_is_an_error(tmp_path):
    (tmp_path / "x.vec").write_bytes(to_text(VECTORS))
    message = "its vectors have width 7, but the embedding table has 9; set the width of the model to 7"
    with pytest.raises(DataError, match=message):
        init_embeddings(table(width=9), ["the"], tmp_path / "x.vec")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"5 7\n" + b"\n".join(glove().split(b"\n")[:3]) + b"\n",
            "truncated: the header has 5 vectors, but the file has 3",
        ),
        (to_text(VECTORS)[:-30], r":6: \d values, expected 7; the file is truncated or damaged"),
        (glove()[:-30], r":5: \d values, expected 7; the file is truncated or damaged"),
        (to_binary(VECTORS)[:-9], "truncated: the header has 5 vectors, but it ends in vector 5"),
        (to_binary(VECTORS)[:-40], "truncated: the header has 5 vectors, but it ends in vector 4"),
        (b"a 1 2 3\nb 1 x 3\n", ":2: not a vector: could not convert"),
        (b"hello\n", "not a file of word vectors: its first line is neither"),
        (b"", "not a file of word vectors"),
    ],
)
def test_a_truncated_or_invalid_file_is_an_error(tmp_path, content, message):
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read(path)


def test_an_unreadable_file_is_an_error(tmp_path):
    with pytest.raises(DataError, match="no such file of word vectors"):
        read(tmp_path / "nowhere")
    (tmp_path / "x.gz").write_bytes(gzip.compress(to_text(VECTORS))[:-20])
    with pytest.raises(DataError, match=r"x.gz: cannot be read"):
        read(tmp_path / "x.gz")


@pytest.mark.parametrize("word", ["", "two words"])
def test_a_word_that_no_format_supports_is_refused(word):
    with pytest.raises(FileError, match="cannot be written: it has a space or is empty"):
        word_vectors.to_text(WordVectors([word], VECTORS.matrix[:1]))
