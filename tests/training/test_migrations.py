"""Run folders of the previous version load and give the same scores; old setting names are refused with the new one."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.core.errors import CheckpointError, ConfigError
from regard.core.registry import find
from regard.data.builtin import scenes
from regard.data.text import pair_files, tagged_files
from regard.data.text.pair_files import Languages
from regard.training import migrations, recipe
from regard.training.checkpoint import BestEvaluation
from regard.training.config import Config, Pretrained
from regard.training.migrations import CONFIG_VERSION, OLDEST, migrate

WHERE = Path("runs/old/config.json")
RUNS = Path(__file__).parent / "runs_v6"  # one small run per task, written by the last release with version 6
EXPECTED: dict[str, dict[str, float]] = json.loads((RUNS / "expected.json").read_text(encoding="utf-8"))


def test_unreadable_versions_are_refused():
    with pytest.raises(CheckpointError, match=f"version 99 was written by a newer regard; .* up to {CONFIG_VERSION}"):
        migrate({"version": 99}, WHERE)
    with pytest.raises(
        CheckpointError, match=f"version 5 is too old; this regard reads versions {OLDEST} to {CONFIG_VERSION}"
    ):
        migrate({"version": 5}, WHERE)
    for table in ({}, {"version": "one"}, {"version": 0}):
        with pytest.raises(CheckpointError, match="is not a version of a run's configuration"):
            migrate(table, WHERE)


def test_the_current_version_is_not_changed():
    table = {"task": "translation", "data": {"rows": 3}, "model": {"name": "gpt", "hidden": 2}}
    assert migrate({"version": CONFIG_VERSION, **table}, WHERE) == table


def test_third_party_settings_keep_their_names():
    table = {"task": "my_lab.sums", "data": {"rows": 3}, "model": {"name": "my_lab.net", "hidden": 2}}
    assert migrate({"version": 6, **table}, WHERE) == table


def test_values_that_are_no_tables_survive():
    assert migrate({"version": 6, "task": 3, "data": [], "model": "x", "training": None}, WHERE)["model"] == "x"


def use_former_data(run: Any, name: str) -> None:
    """Give a run the built-in validation data of its version; the present built-in data differs."""
    if name == "translation":
        languages = Languages("1", "2", header=False)
        run.task.pairs = {"valid": pair_files.read(RUNS / "valid_data" / "translation.tsv.gz", languages)["train"]}
    elif name == "tagging":
        run.task.sentences = {"valid": tagged_files.read_sentences(RUNS / "valid_data" / "tagging.conll.gz")}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_run_of_version_6_gives_the_same_scores(name, tmp_path, monkeypatch):
    monkeypatch.setattr(scenes, "_sample_paper", lambda rng, traits: rng.uniform(15, 80))  # the paper of that version
    shutil.copytree(RUNS / name, tmp_path / name)
    run = regard.load(tmp_path / name, trust=True)
    use_former_data(run, name)
    expected = migrations.to_shares(name, EXPECTED[name])  # version 6 had percentages
    scores = run.evaluate("valid")
    assert {key: scores[key] for key in expected} == pytest.approx(expected, rel=1e-4, abs=1e-6)
    written = json.loads((tmp_path / name / "config.json").read_text(encoding="utf-8"))
    assert written["version"] == 6  # loading does not rewrite the folder


def renames() -> Iterator[tuple[type, dict[str, str]]]:
    """Settings dataclass -> its renamed settings."""
    for old_task in EXPECTED:
        task = migrations.RENAMED_TASKS.get(old_task, old_task)
        module = find("regard.tasks", task)
        fields = {field.name for field in dataclasses.fields(module.Config)}
        table = migrations.renamed_data(task)
        yield module.Config, {old: new for old, new in table.items() if new in fields}
        yield module.Options, dict(migrations.RENAMED_OPTIONS.get(task, {}))
    for model, names in migrations.RENAMED_MODEL.items():
        yield find("regard.models", model).Config, dict(names)
    for section, names in migrations.RENAMED_TRAINING.items():
        hints = {field.name: field.default_factory for field in dataclasses.fields(Config)}
        yield (Config if not section else hints[section]), dict(names)
    yield Pretrained, dict(migrations.RENAMED_PRETRAINED)


def test_every_new_name_is_a_setting_and_no_old_one_is():
    mismatches = [
        (settings, old, new)
        for settings, names in renames()
        for old, new in names.items()
        if (not hasattr(settings, new) and new not in {field.name for field in dataclasses.fields(settings)})
        or old in {field.name for field in dataclasses.fields(settings)}
    ]
    assert mismatches == []


@pytest.mark.parametrize(
    ("task", "setting", "message"),
    [
        ("translation", "data.tokens=100", r"data\.tokens was renamed; write data\.max_batch_tokens"),
        ("recommendation", "data.longest=5", r"data\.longest was renamed; write data\.max_history"),
        ("translation", "model.hidden=8", r"model\.hidden was renamed; write model\.ffn_dim"),
        ("translation", "training.optimizer.clip=1", r"training\.optimizer\.clip was renamed; write .*\.max_grad_norm"),
        ("translation", "decoding.width=3", r"decoding\.width was renamed; write decoding\.beam_width"),
        ("translation", "start.run=x", r"\[start\] was renamed; write \[pretrained\]"),
        ("translation", "decoding=prefix", r"decoding=prefix was renamed; write decoding=forced_prefix"),
    ],
)  # fmt: skip
def test_an_old_setting_is_refused_with_the_new_name(task, setting, message):
    with pytest.raises(ConfigError, match=message):
        recipe.read(task, settings=[setting])


def test_an_old_task_is_refused_with_the_new_name():
    with pytest.raises(ConfigError, match="task=images was renamed; write task=image_generation"):
        recipe.read("images")


def test_an_old_option_is_refused_with_the_new_name(tmp_path):
    shutil.copytree(RUNS / "translation", tmp_path / "run")
    run = regard.load(tmp_path / "run", trust=True)
    with pytest.raises(ConfigError, match="nbest was renamed; write n"):
        run.predict(["a"], nbest=2)
    with pytest.raises(ConfigError, match=r"decoding\.width was renamed; write decoding\.beam_width"):
        run.predict(["a"], decoding={"width": 2})


@pytest.mark.parametrize(
    ("task", "stored", "expected"),
    [
        ("image_classification", {"accuracy": 98.5, "loss": 1.5}, {"accuracy": 0.985, "loss": 1.5}),
        ("image_classification", {"accuracy": 0.985}, {"accuracy": 0.985}),
        (
            "captioning",
            {"bleu4": 90.0, "exact": 0.6, "pointing": 50.0},
            {"bleu4": 90.0, "exact": 0.006, "pointing": 0.5},
        ),
        ("detection", {"ap50": 0.9, "ap": 0.5}, {"ap50": 0.9, "ap": 0.5}),
        ("classification", {"accuracy": 1.0}, {"accuracy": 1.0}),
    ],
)
def test_stored_percentages_become_shares(task, stored, expected):
    assert migrations.to_shares(task, stored) == pytest.approx(expected)


def test_a_resumed_run_compares_shares_with_shares():
    best = BestEvaluation(step=5, score=60.0, metrics={"accuracy": 60.0, "loss": 2.0}, loss=2.0, highest=70.0)
    migrated = best.in_shares("image_classification")
    assert (migrated.score, migrated.metrics, migrated.loss) == (0.6, {"accuracy": 0.6, "loss": 2.0}, 2.0)
    assert migrated.highest == 0.7
    assert best.in_shares("tests.other") == best
    assert migrated.in_shares("image_classification") == migrated


def test_an_xlnet_of_the_earlier_architecture_is_refused_with_the_remedy():
    with pytest.raises(
        ConfigError, match=r"model\.max_distance: xlnet now has the relative positions of its paper .*; train"
    ):
        recipe.read("masked_language", settings=["model=xlnet", "model.max_distance=64"])
