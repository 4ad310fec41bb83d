"""Data paths of a run: stored as absolute paths, changeable if the data has moved, and other data is recognized."""

from dataclasses import replace
from pathlib import Path

import pytest

from regard.api.run import load
from regard.core.errors import ConfigError, DataError
from regard.training import data_paths, recipe, train

SMALL = ["model.layers=1", "model.dim=8", "model.ffn_dim=8", "model.heads=1", "data.vocab_size=60", "decoding=greedy"]
SHORT = ["training.steps=2", "training.evaluation.every=2", "data.max_length=20"]
ROWS = [f"the number {i} is here\t숫자 {i} 여기" for i in range(60)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run trained in the folder of its data, with a relative path."""
    home = tmp_path_factory.mktemp("home")
    (home / "pairs.tsv").write_text("en\tko\n" + "\n".join(ROWS) + "\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        return train.train(recipe.read("translation", settings=["data.path=pairs.tsv", *SMALL, *SHORT]), home / "run")


def test_paths_are_written_out(trained, monkeypatch):
    assert load(trained).recipe.task.config.path == trained.parent / "pairs.tsv"
    monkeypatch.chdir("/")
    chosen = recipe.read("language", settings=["data.paths=a.txt,b.tsv#4"])
    assert data_paths.with_absolute_paths(chosen).task.config.paths == (Path("/a.txt"), Path("/b.tsv#4"))


def test_a_run_is_evaluated_and_resumed_from_elsewhere(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "bleu" in load(trained).evaluate("valid")
    assert train.resume(trained) == trained


def test_moved_data_is_reported_and_recognized(trained, tmp_path):
    here = trained.parent / "pairs.tsv"
    expected = load(trained).evaluate("test")
    moved = here.rename(tmp_path / "moved.tsv")
    try:
        message = rf"^{here}: the data of {trained} does not exist; if it has moved, set data\.path=…$"
        with pytest.raises(DataError, match=message):
            load(trained).evaluate("test")
        with pytest.raises(DataError, match=message):
            train.resume(trained)
        again = load(trained, [f"data.path={moved}"])
        assert again.uses_training_data and again.evaluate("test") == expected  # its test split, not the complete file
    finally:
        moved.rename(here)


def test_other_data_is_used_completely_for_testing(trained, tmp_path):
    other_file = tmp_path / "other.tsv"
    other_file.write_text("".join(f"{row}\n" for row in ROWS[:3]), encoding="utf-8")
    run = load(trained, [f"data.path={other_file}"])
    assert not run.uses_training_data and len(run.evaluation_task().split("test")) == 3
    with pytest.raises(DataError, match=r"the data has changed since .* was started"):
        train.resume(trained, [f"data.path={other_file}", "training.steps=3"])


def test_what_a_run_is_made_of_does_not_change(trained):
    message = (
        r"^data\.vocab_size=9: a trained run keeps its data; only training\.…, decoding\.…, data\.path=…, "
        r"data\.dataset=…, data\.columns=…, data\.header=… can change$"
    )
    with pytest.raises(ConfigError, match=message):
        load(trained, ["data.vocab_size=9"])


def test_files_and_translations_from_elsewhere_are_scored(trained, tmp_path):
    for name, lines in (("f.en", ["the number 1", "the number 2"]), ("f.ko", ["숫자 1 여기 있다", "숫자 2 여기 있다"])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    files = {"source": tmp_path / "f.en", "target": tmp_path / "f.ko"}
    run = load(trained)
    assert {"bleu", "loss"} <= set(run.evaluate(**files))
    scores = run.evaluate(hypotheses=tmp_path / "f.ko", target=tmp_path / "f.ko", bleu="char")
    assert scores == pytest.approx({"bleu": 100, "bleu_lc": 100, "chrf": 100})
    assert "tok:intl" in run.evaluation_task(bleu="intl").signatures()["bleu"]
    with pytest.raises(ConfigError, match=r"a source and a target go together: source=test\.en target=test\.ko$"):
        run.evaluate(source=tmp_path / "f.en")
    with pytest.raises(ConfigError, match=r"^evaluate: no setting 'sauce'; did you mean 'source'\?$"):
        run.evaluate(sauce="x")


def test_a_recipe_without_paths_stays_as_it_is():
    chosen = recipe.read("translation")
    assert data_paths.with_absolute_paths(chosen) == chosen == replace(chosen)
