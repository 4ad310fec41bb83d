"""Configurations of earlier versions: read, brought to today's, and the same numbers come out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import regard
from regard.core.errors import CheckpointError
from regard.training import migrations
from regard.training.migrations import CONFIG_VERSION, migrate

WHERE = Path("runs/old/config.json")


def test_versions_are_migrated_or_refused_in_words(monkeypatch):
    assert migrate({"version": 1, "seed": 2}, WHERE) == {"seed": 2}
    with pytest.raises(CheckpointError, match=f"version 99 was written by a newer regard; .* up to {CONFIG_VERSION}"):
        migrate({"version": 99}, WHERE)
    for wrong in ({}, {"version": "one"}, {"version": 0}):
        with pytest.raises(CheckpointError, match="is not a version of a run's configuration"):
            migrate(wrong, WHERE)
    monkeypatch.setattr(migrations, "VERSION", 3)
    monkeypatch.setattr(migrations, "MIGRATIONS", {})
    with pytest.raises(CheckpointError, match="version 1 is too old for this regard; train the run anew"):
        migrate({"version": 1}, WHERE)
    steps = {1: lambda table: table | {"renamed": table["seed"]}, 2: lambda table: table | {"last": 2}}
    monkeypatch.setattr(migrations, "MIGRATIONS", steps)
    assert migrate({"version": 1, "seed": 5}, WHERE) == {"seed": 5, "renamed": 5, "last": 2}


@pytest.mark.parametrize(
    ("before", "after"),
    [("additive", "concat"), ("concat", "additive"), ("dot", "dot"), ("lab.own", "lab.own"), (3, 3)],
)
def test_scores_had_each_others_names_before_version_3(before, after):
    for version in (1, 2):
        old = {"version": version, "model": {"name": "bahdanau", "score": before}}
        assert migrate(old, WHERE)["model"] == {"name": "bahdanau", "score": after, "word_scale": 1.0}
    assert migrate({"version": 3, "model": {"score": before}}, WHERE)["model"]["score"] == before
    assert migrate({"version": 2, "model": ["not", "a", "table"]}, WHERE)["model"] == ["not", "a", "table"]


@pytest.mark.parametrize(
    "model",
    [
        {"name": "music_transformer", "position": "relative", "intervals": False},
        {"name": "music_transformer", "position": "none", "intervals": True},
        {"name": "gpt", "position": "relative"},
    ],
)
def test_vectors_for_the_future_are_no_longer_kept(model):
    with pytest.raises(CheckpointError, match=r"config.json: a .* of an earlier regard holds vectors for the future"):
        migrate({"version": 3, "model": model}, WHERE)
    assert migrate({"version": CONFIG_VERSION, "model": model}, WHERE) == {"model": model}
    other = {"name": model["name"], "position": "sinusoidal"}
    assert migrate({"version": 3, "model": other}, WHERE) == {"model": other}


def test_word_vectors_are_read_as_they_were_before_version_6():
    for name in ("seq2seq", "bahdanau", "luong"):
        assert migrate({"version": 5, "model": {"name": name}}, WHERE)["model"]["word_scale"] == 1
        assert "word_scale" not in migrate({"version": CONFIG_VERSION, "model": {"name": name}}, WHERE)["model"]
    with pytest.raises(CheckpointError, match=r"config.json: a recommender of an earlier regard .*; train it anew"):
        migrate({"version": 5, "model": {"name": "recommender"}}, WHERE)
    other = {"name": "transformer"}
    assert migrate({"version": 5, "model": other}, WHERE)["model"] == other


@pytest.mark.parametrize(("score", "old_name"), [("additive", "concat"), ("concat", "additive")])
def test_a_run_of_version_2_computes_what_it_did(tmp_path, score, old_name):
    settings = ["data.pairs=40", "data.vocab_size=300", "model=bahdanau", "model.dim=8", "model.embedding=8"]
    settings += ["model.embedding_scale=1.0"]
    run = regard.train(
        "translation", [*settings, f"model.score={score}", "training.steps=2"], out=tmp_path / "run", quiet=True
    )
    now = [answer.to_json() for answers in run.predict(run.task.examples) for answer in answers]
    config = tmp_path / "run" / "config.json"
    table = json.loads(config.read_text(encoding="utf-8"))
    assert table["version"] == CONFIG_VERSION and table["model"]["score"] == score
    table["version"], table["model"]["score"] = 2, old_name
    del table["model"]["word_scale"]  # it was not there
    table.pop("sha256", None)
    config.write_text(json.dumps(table), encoding="utf-8")
    old = regard.load(tmp_path / "run")
    assert old.recipe.model.config.score == score
    assert [answer.to_json() for answers in old.predict(old.task.examples) for answer in answers] == now
