import pytest

from regard.core.errors import DataError
from regard.data import examples
from regard.data.examples import Examples


def made(count, where="numbers"):
    return Examples(where, lambda: iter([f"text {i % (count - 3)}" for i in range(count)]), key="k")


def test_rows_can_be_gone_through_again():
    assert list(made(9)) == list(made(9)) and len(list(made(9))) == 9


def test_parts_are_disjoint_complete_and_decided_by_the_seed():
    parts = examples.add_missing_splits({"train": made(200)}, 1, text_of=str)
    texts = {split: set(part) for split, part in parts.items()}
    assert set.union(*texts.values()) == set(made(200))
    assert not (texts["train"] & texts["valid"] or texts["train"] & texts["test"] or texts["valid"] & texts["test"])
    assert texts == {s: set(p) for s, p in examples.add_missing_splits({"train": made(200)}, 1, text_of=str).items()}
    assert texts != {s: set(p) for s, p in examples.add_missing_splits({"train": made(200)}, 2, text_of=str).items()}
    assert len({part.key for part in parts.values()}) == 3


def test_given_splits_stay():
    given = {"train": made(50), "valid": made(9)}
    assert examples.add_missing_splits(given, 1, text_of=str) == given
    cut = examples.add_missing_splits({"train": made(50), "test": made(9)}, 1, text_of=str)
    assert set(cut) == {"train", "valid", "test"} and cut["test"] is not None


def test_without_training_data_or_with_too_little_nothing_is_split():
    with pytest.raises(DataError, match="there is no training split; the data has test"):
        examples.add_missing_splits({"test": made(9)}, 1, text_of=str)
    with pytest.raises(DataError, match="numbers: 2 different texts are too few to split"):
        examples.add_missing_splits({"train": made(5)}, 1, text_of=str)


def test_a_split_is_picked_or_the_others_are_named():
    assert examples.get_split({"train": 1, "valid": 2}, "valid") == 2
    with pytest.raises(DataError, match="the data has no split 'vald'; did you mean 'valid'"):
        examples.get_split({"train": made(9), "valid": made(9)}, "vald")


def test_files_named_after_splits(tmp_path):
    for name in ("train.tsv", "ner.dev.gz", "test.first_half.conll.xz", "README.md", "train.backup.json"):
        (tmp_path / name).write_text("x")
    found = examples.files_by_split(tmp_path, (".tsv", ".conll"))
    assert {split: path.name for split, path in found.items()} == {
        "valid": "ner.dev.gz",
        "test": "test.first_half.conll.xz",
        "train": "train.tsv",
    }


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


def test_a_checksum_is_of_the_content_and_of_what_is_taken_from_it(tmp_path):
    def opened(folder, text="one"):
        (tmp_path / folder).mkdir(exist_ok=True)
        path = tmp_path / folder / "a.txt"
        path.write_text(text)
        return examples.from_files("a", lambda: iter(path.read_text().split()), path, key="columns")

    assert opened("x").checksum() == opened("y").checksum() != opened("y", "two").checksum()
    texts = " ".join(f"w{i}" for i in range(60))
    parts = examples.add_missing_splits({"train": opened("x", texts)}, 1, text_of=str)
    assert len({part.checksum() for part in parts.values()}) == 3
    assert made(9).checksum() == made(9).checksum() != made(10).checksum()
    gone = examples.from_files("a", lambda: iter(["one"]), tmp_path / "gone.txt")
    assert gone.checksum() == Examples("b", lambda: iter(["one"])).checksum()


def test_rows_that_are_held_are_read_once(monkeypatch):
    times = []

    def read():
        times.append(1)
        return iter("abc")

    kept = examples.cache_in_memory(Examples("x", read, key="k", bytes=3))
    assert list(kept) == list(kept) == ["a", "b", "c"] and len(times) == 1 and kept.key == "k"
    monkeypatch.setattr(examples, "HELD", 2)
    large = Examples("x", read, bytes=3)
    assert examples.cache_in_memory(large) is large
