"""The model card contains measured values."""

from __future__ import annotations

from dataclasses import replace

import torch
from toys import summing

from regard.training import model_card, tensor_files
from regard.training.checkpoint import Progress
from regard.training.load_run import load_run
from regard.training.recipe import ComponentChoice
from regard.training.run_folder import RunFolder
from regard.training.train import train


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
    assert "print(run.predict(['1 2 3'])[0][0].text)" in text


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


class Listed(ComponentChoice):
    """A toy task that acts as a built-in task."""

    def module(self, package):
        return summing
