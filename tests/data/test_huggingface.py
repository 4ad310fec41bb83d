import sys
from types import SimpleNamespace

import pytest

from regard.core import trust
from regard.core.errors import DataError, MissingExtra, TrustError
from regard.data import huggingface
from regard.data.text import pair_sources
from regard.data.text.document_files import Layout
from regard.data.text.pair_files import Languages

ROWS = [{"en": f"dog {i}", "de": f"Hund {i}"} for i in range(60)]
EN_DE = Languages("en", "de")


@pytest.fixture
def datasets():
    return pytest.importorskip("datasets", reason="the extra `datasets` is not installed")


@pytest.fixture
def requests(monkeypatch):
    """Replace the library by a fake without network access; return the datasets that are requested."""
    requests = []

    def load_dataset(name, configuration):
        requests.append((name, configuration))
        if name == "owner/gone":
            raise ConnectionError("Couldn't reach the hub\nmore lines")
        if name == "owner/odd":
            return {"part1": ROWS}
        return {"train": [{"translation": row} for row in ROWS], "test": [{"translation": ROWS[0]}]}

    def load_from_disk(path):
        raise ValueError(f"{path} is broken")

    fake = SimpleNamespace(load_dataset=load_dataset, load_from_disk=load_from_disk)
    monkeypatch.setitem(sys.modules, "datasets", fake)
    return requests


def save_documents(datasets, folder, table, label=None):
    features = None
    if label is not None:
        features = datasets.Features({"text": datasets.Value("string"), "label": label})
    part = datasets.Dataset.from_dict(table, features=features)
    datasets.DatasetDict({"train": part, "validation": part}).save_to_disk(folder / "saved")
    return folder / "saved"


def test_a_dataset_by_name(requests):
    splits = pair_sources.open_pairs(pair_sources.PairSource(None, "hf:owner/set:de-en", EN_DE, seed=1), count=1)
    assert requests == [("owner/set", "de-en")] and set(splits) == {"train", "valid", "test"}
    assert list(splits["test"]) == [("dog 0", "Hund 0")]


def test_a_dataset_that_cannot_be_loaded_is_a_one_line_error(requests, tmp_path):
    with pytest.raises(DataError, match=r"hf:owner/gone: cannot be loaded: Couldn't reach the hub$"):
        huggingface.open_splits("hf:owner/gone")
    with pytest.raises(DataError, match=r"cannot be loaded: .* is broken"):
        huggingface.open_splits(tmp_path)


def test_splits_with_unknown_names_are_an_error(requests):
    with pytest.raises(DataError, match="hf:owner/odd: no split named train, valid or test; it has part1"):
        huggingface.open_splits("hf:owner/odd")


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtra, match=r"pip install 'regard\[datasets\]'"):
        huggingface.open_splits("hf:owner/set")


def test_an_untrusted_run_fetches_nothing(requests, tmp_path):
    with (
        trust.trust_scope(tmp_path, trusted=False),
        pytest.raises(TrustError, match=r"would fetch hf:owner/set over"),
    ):
        huggingface.open_splits("hf:owner/set")
    assert requests == []


def test_a_damaged_folder_and_unknown_splits_of_a_saved_dataset(datasets, tmp_path):
    (tmp_path / "state.json").write_text("{}")
    with pytest.raises(DataError, match="cannot be loaded"):
        huggingface.open_splits(tmp_path)
    part = datasets.Dataset.from_dict({"text": ["a"], "label": ["b"]})
    datasets.DatasetDict({"other": part}).save_to_disk(tmp_path / "odd")
    with pytest.raises(DataError, match="no split named train, valid or test; it has other"):
        huggingface.open_splits(tmp_path / "odd")


def test_a_saved_dataset_is_read_as_pairs(datasets, tmp_path):
    parts = {"train": datasets.Dataset.from_list(ROWS), "validation": datasets.Dataset.from_list(ROWS[:3])}
    datasets.DatasetDict(parts).save_to_disk(str(tmp_path / "saved"))
    assert huggingface.is_saved(tmp_path / "saved")
    splits = huggingface.read_pairs(tmp_path / "saved", EN_DE)
    assert set(splits) == {"train", "valid"}
    expected = [("dog 0", "Hund 0"), ("dog 1", "Hund 1"), ("dog 2", "Hund 2")]
    assert list(splits["valid"]) == list(splits["valid"]) == expected


def test_a_missing_language_names_the_record(requests):
    splits = huggingface.read_pairs("hf:owner/set", Languages("en", "fr"))
    with pytest.raises(DataError, match=r"hf:owner/set train:1: no language 'fr'; "):
        list(splits["train"])


def test_class_ids_become_class_names(datasets, tmp_path):
    label = datasets.ClassLabel(names=["neg", "pos"])
    path = save_documents(datasets, tmp_path, {"text": ["a", "b"], "label": [1, 0]}, label)
    splits = huggingface.read_documents(path, Layout())
    assert set(splits) == {"train", "valid"}
    assert [(d.text, d.labels) for d in splits["train"]] == [("a", ("pos",)), ("b", ("neg",))]
    assert splits["train"].key


def test_several_labels_per_document(datasets, tmp_path):
    label = datasets.Sequence(datasets.ClassLabel(names=["joy", "fear"]))
    path = save_documents(datasets, tmp_path, {"text": ["a"], "label": [[0, 1]]}, label)
    (document,) = huggingface.read_documents(path, Layout(separator="|"))["train"]
    assert document.labels == ("joy", "fear")


def test_labels_that_are_names_are_unchanged(datasets, tmp_path):
    path = save_documents(datasets, tmp_path, {"text": ["a"], "label": ["pos"]})
    (document,) = huggingface.read_documents(path, Layout())["train"]
    assert document.labels == ("pos",)


def test_a_dataset_without_an_image_column(datasets, tmp_path):
    datasets.Dataset.from_dict({"text": ["a"]}).save_to_disk(str(tmp_path / "a"))
    with pytest.raises(DataError, match=r"train: no column holds images; known: text$"):
        list(huggingface.read_images(tmp_path / "a"))


def test_an_image_file_that_does_not_exist(datasets, tmp_path, monkeypatch):
    features = datasets.Features({"image": datasets.Image(decode=False)})
    rows = {"image": [{"path": str(tmp_path / "gone.png"), "bytes": None}]}
    table = datasets.Dataset.from_dict(rows, features=features)
    monkeypatch.setattr(datasets, "load_dataset", lambda *_: {"train": table})
    with pytest.raises(DataError, match=r"^hf:a/b train:1: .*gone.png: No such file or directory$"):
        list(huggingface.read_images("hf:a/b"))
