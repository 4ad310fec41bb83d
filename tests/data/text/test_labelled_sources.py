import pytest

from regard.core.errors import ConfigError
from regard.data.text import labelled_sources
from regard.data.text.document_files import Layout
from regard.data.text.labelled_sources import LabelledSource


def built_in(name, examples=30, seed=1):
    return LabelledSource(None, name, seed, examples)


@pytest.mark.parametrize("name", labelled_sources.REVIEWS)
def test_built_in_documents(name):
    splits = labelled_sources.open_documents(built_in(name), Layout())
    sizes = {split: len(list(rows)) for split, rows in splits.items()}
    assert sizes == {
        "train": 30,
        "valid": labelled_sources.HELD_OUT_EXAMPLES,
        "test": labelled_sources.HELD_OUT_EXAMPLES,
    }
    assert splits["train"].key != labelled_sources.open_documents(built_in(name, seed=2), Layout())["train"].key


@pytest.mark.parametrize("name", labelled_sources.ENTITIES)
def test_built_in_tagged_sentences(name):
    splits = labelled_sources.open_tagged(built_in(name))
    assert len(list(splits["train"])) == 30 and list(splits["test"]) == list(splits["test"])


def test_only_built_in_reviews_have_evidence(tmp_path):
    source = built_in("reviews_ko")
    reviews = labelled_sources.held_out_reviews(source, "valid")
    texts = [document.text for document in labelled_sources.open_documents(source, Layout())["valid"]]
    assert [review.text for review in reviews] == texts
    assert labelled_sources.find_review(source, texts[3]) == reviews[3]
    assert labelled_sources.find_review(source, "something else") is None
    external = source._replace(path=tmp_path)
    assert (
        labelled_sources.held_out_reviews(external, "valid") is None
        and labelled_sources.find_review(external, texts[3]) is None
    )


def test_files_without_splits_are_split(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("".join(f"{i % 2}\ttext {i}\n" for i in range(60)))
    assert set(labelled_sources.open_documents(LabelledSource(path, "", 1, 0), Layout("1", "2"))) == {
        "train",
        "valid",
        "test",
    }
    path = tmp_path / "a.conll"
    path.write_text("".join(f"w{i}\tO\n\n" for i in range(60)))
    assert set(labelled_sources.open_tagged(LabelledSource(path, "", 1, 0))) == {"train", "valid", "test"}


def test_a_saved_dataset_is_read(tmp_path):
    datasets = pytest.importorskip("datasets")
    part = datasets.Dataset.from_dict({"text": [f"t {i}" for i in range(60)], "label": ["a", "b"] * 30})
    part.save_to_disk(tmp_path / "saved")
    splits = labelled_sources.open_documents(LabelledSource(tmp_path / "saved", "", 1, 0), Layout())
    assert sum(len(list(rows)) for rows in splits.values()) == 60


def test_an_unknown_name_is_an_error():
    with pytest.raises(
        ConfigError, match=r"no data 'reviews'; files are given as data\.path=…; did you mean 'reviews_\w\w'\?"
    ):
        labelled_sources.open_documents(built_in("reviews"), Layout())
    with pytest.raises(ConfigError, match=r"no data 'reviews_en'; files are given as .*; did you mean"):
        labelled_sources.open_tagged(built_in("reviews_en"))
