import sys
from types import SimpleNamespace

import pytest

from regard.core import trust
from regard.core.errors import DataError, MissingExtra, TrustError
from regard.data import huggingface
from regard.data.text import pair_sources
from regard.data.text.pair_files import Languages

ROWS = [{"en": f"dog {i}", "de": f"Hund {i}"} for i in range(60)]
EN_DE = Languages("en", "de")


def test_a_saved_dataset_is_read_as_pairs(tmp_path):
    datasets = pytest.importorskip("datasets", reason="the extra `datasets` is not installed")
    parts = {"train": datasets.Dataset.from_list(ROWS), "validation": datasets.Dataset.from_list(ROWS[:3])}
    datasets.DatasetDict(parts).save_to_disk(str(tmp_path / "saved"))
    assert huggingface.is_saved(tmp_path / "saved")
    found = huggingface.read_saved(tmp_path / "saved", EN_DE)
    assert set(found) == {"train", "valid"}
    assert (
        list(found["valid"]) == list(found["valid"]) == [("dog 0", "Hund 0"), ("dog 1", "Hund 1"), ("dog 2", "Hund 2")]
    )


@pytest.fixture
def library(monkeypatch):
    """Stands in for the library: what is asked for by name, without a network."""
    asked = []

    def load_dataset(name, configuration):
        asked.append((name, configuration))
        if name == "owner/gone":
            raise ConnectionError("Couldn't reach the hub\nmore lines")
        if name == "owner/odd":
            return {"part1": ROWS}
        return {"train": [{"translation": row} for row in ROWS], "test": [{"translation": ROWS[0]}]}

    def load_from_disk(path):
        raise ValueError(f"{path} is broken")

    fake = SimpleNamespace(load_dataset=load_dataset, load_from_disk=load_from_disk)
    monkeypatch.setitem(sys.modules, "datasets", fake)
    return asked


def test_a_dataset_by_name(library):
    found = pair_sources.open_pairs(pair_sources.PairSource(None, "hf:owner/set:de-en", EN_DE, seed=1), count=1)
    assert library == [("owner/set", "de-en")] and set(found) == {"train", "valid", "test"}
    assert list(found["test"]) == [("dog 0", "Hund 0")]


def test_a_missing_language_names_the_record(library):
    found = huggingface.read_from_hub("hf:owner/set", Languages("en", "fr"))
    with pytest.raises(DataError, match=r"hf:owner/set train:1: no language 'fr'; "):
        list(found["train"])


def test_what_cannot_be_loaded_is_one_line(library, tmp_path):
    with pytest.raises(DataError, match=r"hf:owner/gone: cannot be loaded: Couldn't reach the hub$"):
        huggingface.read_from_hub("hf:owner/gone", EN_DE)
    with pytest.raises(DataError, match=r"not a saved dataset that can be read: .* is broken"):
        huggingface.read_saved(tmp_path, EN_DE)


def test_splits_without_a_known_name_are_an_error(library):
    with pytest.raises(DataError, match="hf:owner/odd: no split named train, valid or test; found part1"):
        huggingface.read_from_hub("hf:owner/odd", EN_DE)


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtra, match=r"pip install 'regard\[datasets\]'"):
        huggingface.read_from_hub("hf:owner/set", EN_DE)


def test_for_a_stranger_s_run_nothing_is_fetched(library, tmp_path):
    with (
        trust.trust_scope(tmp_path, trusted=False),
        pytest.raises(TrustError, match=r"would fetch hf:owner/set over"),
    ):
        huggingface.read_from_hub("hf:owner/set", EN_DE)
    assert library == []
