"""The model card contains measured values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from toys import summing

import regard
from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.training import model_card, tensor_files
from regard.training.checkpoint import Progress
from regard.training.load_run import load_run
from regard.training.recipe import ComponentChoice
from regard.training.run_folder import RunFolder, read_origin
from regard.training.train import resume, train


def test_it_says_what_was_measured(toy, tmp_path, silent):
    run = load_run(train(toy(), tmp_path / "sums", console=silent))
    text = (tmp_path / "sums" / "README.md").read_text()
    facts = tensor_files.read_metadata(tmp_path / "sums" / "model.safetensors")
    assert text.startswith("---\n") and "# sums" in text
    assert f"{sum(p.numel() for p in run.model.parameters()):,} parameters" in text
    assert f"(step {facts['step']})" in text and f"| accuracy | {facts['metrics']['accuracy']:.4g} |" in text
    assert "12 steps, 2 complete epochs" in text and "ended: all 12 steps are done (training.steps)" in text
    assert 'regard.load("sums")' in text and '"words": 6' in text


def test_it_asks_the_task(toy, tmp_path, silent):
    run = load_run(train(toy(), tmp_path / "sums", console=silent))
    text = (tmp_path / "sums" / "README.md").read_text()
    assert "as the model is used. They were selected by `accuracy`: higher is better." in text
    assert "- accuracy: `share of right sums`" in text
    with torch.no_grad():
        answer = run.task.predict(run.model, [[1, 2, 3]], None, None)[0][0].text
    assert f"regard predict sums '1 2 3'\n```\n\nOutput:\n\n```text\n{answer}\n" in text  # toys have no command
    assert 'print(run.predict(["1 2 3"])[0][0].text)' in text


def test_a_listed_task_has_its_verb_and_one_that_fails_to_answer_does_not_spoil_the_run(
    toy, tmp_path, silent, monkeypatch
):
    monkeypatch.setattr(summing.Summing, "parse_input", lambda self, text: 1 / 0)
    monkeypatch.setattr(summing.Summing, "examples", ("",))
    recipe = toy()
    parts = load_run(train(recipe, tmp_path / "sums", console=silent))
    assert "no prediction (ZeroDivisionError: division by zero)" in (tmp_path / "sums" / "README.md").read_text()
    listed = replace(recipe, task=Listed("summing", recipe.task.config))
    text = model_card.render(RunFolder(parts.folder), listed, task=parts.task, model=parts.model, progress=Progress())
    assert "regard add sums\n" in text
    monkeypatch.setattr(summing.Summing, "examples", ())
    text = model_card.render(RunFolder(parts.folder), listed, task=parts.task, model=parts.model, progress=Progress())
    assert "regard add" not in text and 'print(run.evaluate("test"))' in text


@dataclass(frozen=True)
class UserData(summing.Config):
    """Settings of a toy task that reads a file of the user."""

    path: Path | None = None
    column: str = "text"


def test_user_data_is_not_described_by_the_built_in_settings_and_not_quoted(toy, tmp_path, silent):
    folder = train(toy(), tmp_path / "내 합계", console=silent)
    parts = load_run(folder)
    config = UserData(**{**vars(parts.recipe.task.config), "path": Path("/data/합계.csv")})
    recipe = replace(parts.recipe, task=ComponentChoice(parts.recipe.task.name, config))
    text = model_card.render(RunFolder(folder), recipe, task=parts.task, model=parts.model, progress=Progress())
    assert "/data/합계.csv" in text and '"column"' not in text
    assert "regard predict '내 합계' INPUT\n" in text and "1 2 3" not in text
    assert 'regard.load("내 합계")' in text


def test_training_examples_in_the_run_are_a_warning(toy, tmp_path, silent):
    folder = RunFolder(train(toy(), tmp_path / "sums", console=silent))
    parts = load_run(folder.path)
    assert "contains training examples" not in folder.card.read_text(encoding="utf-8")
    parts.task.stored_training_data = "pairs.json"
    text = model_card.render(folder, parts.recipe, task=parts.task, model=parts.model, progress=Progress())
    assert "`pairs.json` contains training examples, and predictions may repeat them word by word" in text


def test_an_imported_run_has_no_training_and_no_data(toy, tmp_path, silent):
    folder = RunFolder(train(toy(), tmp_path / "sums", console=silent))
    parts = load_run(folder.path)
    folder.origin.write_text('{"source": "owner/model", "architecture": "BertForMaskedLM"}')
    text = model_card.render(folder, parts.recipe, task=parts.task, model=parts.model, progress=Progress())
    assert "from owner/model, a `BertForMaskedLM`." in text and "trained with" not in text
    assert '"words"' not in text and "Scores" not in text and "evaluate" not in text
    with pytest.raises(DataError, match=r"sums: imported from owner/model, without data; fine-tune it in a run with"):
        regard.load(folder.path).evaluate()
    with pytest.raises(
        ConfigError, match=r"imported from owner/model, with no training to resume; .* pretrained\.run="
    ):
        resume(folder.path)
    folder.origin.write_text("{}")
    with pytest.raises(CheckpointError, match=r"imported\.json: damaged or not written by regard"):
        read_origin(folder)


class Listed(ComponentChoice):
    """A toy task that acts as a built-in task."""

    def module(self, package):
        return summing
