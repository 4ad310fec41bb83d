import pytest

from regard.core.errors import DataError
from regard.data import splits
from regard.data.text import Pairs


def pairs(count, repeats=2):
    rows = [(f"sentence {i % (count // repeats)}", f"Satz {i}") for i in range(count)]
    return Pairs("made up", lambda: iter(rows), key="made")


def test_missing_splits_are_cut_off_train():
    found = splits.complete({"train": pairs(400)}, seed=1)
    assert set(found) == {"train", "valid", "test"}
    assert sorted(p for split in found.values() for p in split) == sorted(pairs(400))
    assert all(0 < len(list(found[name])) <= 30 for name in ("valid", "test"))


def test_equal_sources_stay_together():
    found = splits.complete({"train": pairs(400)}, seed=1)
    train, valid, test = ({source for source, _ in found[name]} for name in ("train", "valid", "test"))
    assert not (train & valid or train & test or valid & test)


def test_the_seed_decides():
    first, again, other = (list(splits.complete({"train": pairs(400)}, seed=s)["valid"]) for s in (1, 1, 2))
    assert first == again != other


def test_what_is_there_stays():
    given = {"train": pairs(40), "valid": pairs(4), "test": pairs(6)}
    assert splits.complete(given, seed=1) == given


def test_a_given_test_split_is_not_touched():
    given = {"train": pairs(400), "test": pairs(6)}
    found = splits.complete(given, seed=1)
    assert found["test"] == given["test"] and len(list(found["train"])) < 400


def test_without_a_test_split_none_is_made_if_valid_was_given():
    assert set(splits.complete({"train": pairs(40), "valid": pairs(4)}, seed=1)) == {"train", "valid"}


def test_keys_of_the_parts_differ():
    found = splits.complete({"train": pairs(400)}, seed=1)
    assert len({part.key for part in found.values()}) == 3


def test_no_training_data_is_an_error():
    with pytest.raises(DataError, match="there is no training split; found test, valid"):
        splits.complete({"valid": pairs(4), "test": pairs(4)}, seed=1)


def test_too_few_to_split_is_an_error():
    with pytest.raises(DataError, match="made up: 2 different sentences are too few to split"):
        splits.complete({"train": pairs(4)}, seed=1)
