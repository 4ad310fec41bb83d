import numpy as np
import pytest

from regard.core.errors import DataError
from regard.data import examples
from regard.data.examples import Examples, Splits


def generate(count, where="numbers"):
    return Examples(where, lambda: iter([f"text {i % (count - 3)}" for i in range(count)]), key="k")


def test_examples_can_be_read_repeatedly():
    assert list(generate(9)) == list(generate(9)) and len(list(generate(9))) == 9


def test_splits_are_disjoint_complete_and_determined_by_the_seed():
    splits = examples.add_missing_splits({"train": generate(200)}, 1, text_of=str)
    texts = {split: set(part) for split, part in splits.items()}
    assert set.union(*texts.values()) == set(generate(200))
    assert not (texts["train"] & texts["valid"] or texts["train"] & texts["test"] or texts["valid"] & texts["test"])

    def split_texts(seed):
        parts = examples.add_missing_splits({"train": generate(200)}, seed, text_of=str)
        return {split: set(part) for split, part in parts.items()}

    assert texts == split_texts(1) != split_texts(2)
    assert len({part.key for part in splits.values()}) == 3


def test_existing_splits_are_unchanged():
    splits = {"train": generate(50), "valid": generate(9)}
    assert examples.add_missing_splits(splits, 1, text_of=str) == splits
    completed = examples.add_missing_splits({"train": generate(50), "test": generate(9)}, 1, text_of=str)
    assert set(completed) == {"train", "valid", "test"} and completed["test"] is not None


def test_missing_or_too_few_training_examples_are_an_error():
    with pytest.raises(DataError, match="there is no training split; the data has test"):
        examples.add_missing_splits({"test": generate(9)}, 1, text_of=str)
    with pytest.raises(DataError, match="numbers: 2 different texts are too few to split"):
        examples.add_missing_splits({"train": generate(5)}, 1, text_of=str)


def test_examples_with_equal_keys_are_held_out_together():
    keys = np.array([5, 1, 1, 9, 1, 7, 5], dtype=np.uint64)
    splits = examples.hold_out(np.arange(7), keys, ["valid", "test"], size=2)
    assert {name: part.tolist() for name, part in splits.items()} == {
        "valid": [1, 2, 4],
        "test": [0, 6],
        "train": [3, 5],
    }
    with pytest.raises(DataError, match=r"^7 images are too few to hold some out for test; give more$"):
        examples.hold_out(np.arange(7), keys, ["valid", "test"], size=4, noun="images")


def test_an_unknown_split_is_an_error_that_lists_the_splits():
    splits = Splits({"train": 1, "valid": 2})
    assert splits["valid"] == examples.get_split(splits, "valid") == 2 and splits.get("test") is None
    with pytest.raises(DataError, match="the data has no split 'vald'; did you mean 'valid'"):
        splits["vald"]
    with pytest.raises(DataError, match="the data has no split 'vald'; did you mean 'valid'"):
        examples.get_split({"train": generate(9), "valid": generate(9)}, "vald")


def test_the_key_changes_with_the_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one")
    before = examples.from_files("a", lambda: iter([]), path)
    path.write_text("longer")
    after = examples.from_files("a", lambda: iter([]), path)
    assert before.key != after.key and after.bytes == 6


@pytest.mark.parametrize(
    ("stem", "split"),
    [("news.dev", "valid"), ("jhe-koen-dev", "valid"), ("test2017", "test"), ("contest", None), ("readme", None)],
)
def test_a_stem_names_a_split(stem, split):
    assert examples.split_of(stem) == split


def test_the_checksum_depends_on_the_content_and_the_selected_part(tmp_path):
    def open_file(folder, text="one"):
        (tmp_path / folder).mkdir(exist_ok=True)
        path = tmp_path / folder / "a.txt"
        path.write_text(text)
        return examples.from_files("a", lambda: iter(path.read_text().split()), path, key="columns")

    assert open_file("x").checksum() == open_file("y").checksum() != open_file("y", "two").checksum()
    texts = " ".join(f"w{i}" for i in range(60))
    splits = examples.add_missing_splits({"train": open_file("x", texts)}, 1, text_of=str)
    assert len({part.checksum() for part in splits.values()}) == 3
    assert generate(9).checksum() == generate(9).checksum() != generate(10).checksum()
    missing = examples.from_files("a", lambda: iter(["one"]), tmp_path / "gone.txt")
    assert missing.checksum() == Examples("b", lambda: iter(["one"])).checksum()


def test_cached_examples_are_read_once(monkeypatch):
    reads = []

    def read():
        reads.append(1)
        return iter("abc")

    cached = examples.cache_in_memory(Examples("x", read, key="k", bytes=3))
    assert list(cached) == list(cached) == ["a", "b", "c"] and len(reads) == 1 and cached.key == "k"
    monkeypatch.setattr(examples, "MAX_CACHED_BYTES", 2)
    large = Examples("x", read, bytes=3)
    assert examples.cache_in_memory(large) is large
