"""A shortlist is learned once, kept beside the run, and gives every engine the same tokens to choose from."""

import json
import shutil
from dataclasses import replace

import pytest
import torch

import regard
from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.data import lexical
from regard.door import shortlist
from regard.training import recipe as recipes
from regard.training.run import load, train

SMALL = ["model.layers=1", "model.dim=32", "model.hidden=32", "model.heads=2", "data.vocabulary=300"]
SHORT = ["training.steps=100", "training.evaluation.every=100", "model.dropout=0.0", "decoding=greedy"]
TEXTS = ["The cook is reading a book.", "", "Please buy two apples.", "The teacher sleeps."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    words = [(f"{a} {b} .", f"{b.upper()} {a.upper()} .") for a in ("red", "blue", "old") for b in ("dog", "cat", "ox")]
    text = "\n".join("\t".join(pair) for pair in words * 4)
    (place / "train.tsv").write_text(f"en\tko\n{text}\n", encoding="utf-8")
    data = [
        f"data.path={place / 'train.tsv'}",
        "data.level=word",
        "data.smoothing=0",
        "training.schedule.warmup=10",
        "training.optimizer.lr=0.01",
    ]
    return train(
        recipes.read("translation", settings=["model=transformer", *SMALL, *SHORT, *data]), place / "run"
    ).folder


@pytest.fixture
def frequent(monkeypatch):
    """So few tokens always come that the lexicon has a say."""
    monkeypatch.setattr(shortlist, "FREQUENT", 1)


def test_it_is_made_once(folder, monkeypatch):
    opened = shortlist.open_shortlist(load(folder), 4)
    monkeypatch.setattr(lexical, "learn", None)
    again = shortlist.open_shortlist(load(folder), 4)
    source = torch.tensor([[5, 6, 3], [8, 3, 0]])
    assert torch.equal(opened(source), again(source))
    assert len(list(folder.glob("shortlist-*.safetensors"))) == 1


@pytest.mark.usefixtures("frequent")
def test_it_has_the_marks_first_and_the_translations(folder):
    run = load(folder)
    listed = shortlist.open_shortlist(run, 1)
    tokens = listed(run.task.encode_sources(["red dog ."]).tokens)
    assert tokens.tolist() == sorted(set(tokens.tolist())) and tokens[:4].tolist() == [0, 1, 2, 3]
    assert len(tokens) < run.task.sizes.target
    wanted = {token for row in run.task.vocabularies.target.encode(["DOG RED"]) for token in row}
    assert wanted <= set(tokens.tolist())


def test_a_joint_vocabulary_lets_a_token_stay_itself(folder):
    listed = shortlist.open_shortlist(load(folder), 1)
    source = torch.tensor([[len(listed.lexicon.likely) - 1]])
    assert int(source) in replace(listed, joint=True)(source).tolist()


@pytest.mark.parametrize("engine", ["native", "int8"])
def test_engines_translate_with_it(folder, engine):
    texts = ["red dog .", "", "old cat ."]
    exact = regard.load(folder, engine=engine)
    few = regard.load(folder, engine=engine, shortlist=8)
    assert few.translate(texts) == exact.translate(texts)
    best, second = few.candidates(texts[:1], nbest=2)[0]
    assert best[1] >= second[1]


@pytest.mark.usefixtures("frequent")
@pytest.mark.parametrize("decoding", ["greedy", "beam"])
def test_ctranslate2_has_the_same_candidates(folder, decoding):
    pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
    texts = ["old cat .", "blue ox .", "old ox ."]
    ours, theirs = (
        [run.candidates([text])[0][0] for text in texts]
        for run in (
            regard.load(folder, [f"decoding={decoding}"], engine=engine, shortlist=1)
            for engine in ("native", "ctranslate2")
        )
    )
    assert [text for text, _ in theirs] == [text for text, _ in ours]
    # The same probabilities, which are shares of the list, but for what little the marks have of it.
    assert [score for _, score in theirs] == pytest.approx([score for _, score in ours], abs=0.01)


@pytest.mark.parametrize("each", [-1, lexical.KEPT + 1])
def test_a_size_that_makes_no_sense(folder, each):
    with pytest.raises(ConfigError, match=f"shortlist={each}: give 1 to {lexical.KEPT} target tokens"):
        regard.load(folder, shortlist=each).translate(TEXTS)


def test_without_the_training_data(folder, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(folder, copy)
    config = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    config["data"]["path"] = str(tmp_path / "gone.tsv")
    del config["sha256"]
    (copy / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for path in copy.glob("shortlist-*"):
        path.unlink()
    with pytest.raises(DataError, match=r"learned from the training data, which cannot be read .*gone\.tsv"):
        regard.load(copy, shortlist=8).translate(TEXTS)
    shutil.copy(next(folder.glob("shortlist-*")), copy)
    assert len(regard.load(copy, shortlist=8).translate(TEXTS)) == len(TEXTS)  # it is there: the data is not needed


def test_a_damaged_one_is_named(folder, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(folder, copy)
    path = next(copy.glob("shortlist-*"))
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(CheckpointError, match=path.name):
        regard.load(copy, shortlist=8).translate(TEXTS)
