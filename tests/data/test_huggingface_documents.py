import pytest

from regard.core.errors import DataError
from regard.data import huggingface_documents
from regard.data.text.document_files import Layout

datasets = pytest.importorskip("datasets")


def saved(tmp_path, table, label=None):
    features = None
    if label is not None:
        features = datasets.Features({"text": datasets.Value("string"), "label": label})
    part = datasets.Dataset.from_dict(table, features=features)
    datasets.DatasetDict({"train": part, "validation": part}).save_to_disk(tmp_path / "saved")
    return tmp_path / "saved"


def test_numbers_of_classes_become_their_names(tmp_path):
    path = saved(tmp_path, {"text": ["a", "b"], "label": [1, 0]}, datasets.ClassLabel(names=["neg", "pos"]))
    found = huggingface_documents.read_documents(path, Layout())
    assert set(found) == {"train", "valid"}
    assert [(d.text, d.labels) for d in found["train"]] == [("a", ("pos",)), ("b", ("neg",))]
    assert found["train"].key


def test_several_classes(tmp_path):
    kind = datasets.Sequence(datasets.ClassLabel(names=["joy", "fear"]))
    path = saved(tmp_path, {"text": ["a"], "label": [[0, 1]]}, kind)
    (document,) = huggingface_documents.read_documents(path, Layout(separator="|"))["train"]
    assert document.labels == ("joy", "fear")


def test_labels_that_are_names_stay(tmp_path):
    path = saved(tmp_path, {"text": ["a"], "label": ["pos"]})
    (document,) = huggingface_documents.read_documents(path, Layout())["train"]
    assert document.labels == ("pos",)


def test_what_cannot_be_loaded_is_an_error(tmp_path):
    (tmp_path / "state.json").write_text("{}")
    with pytest.raises(DataError, match="cannot be loaded"):
        huggingface_documents.open_splits(tmp_path)
    part = datasets.Dataset.from_dict({"text": ["a"], "label": ["b"]})
    datasets.DatasetDict({"other": part}).save_to_disk(tmp_path / "odd")
    with pytest.raises(DataError, match="no split named train, valid or test; it has other"):
        huggingface_documents.open_splits(tmp_path / "odd")
