"""The model card: README.md of a run folder, with metrics, settings and examples of use."""

from __future__ import annotations

import json
import platform
import shlex
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.core import config as configs
from regard.core.files import write_text
from regard.core.inference_mode import eval_mode
from regard.core.seed import seed_all
from regard.core.task import Task
from regard.core.version import __version__
from regard.training import pretrained
from regard.training.checkpoint import Progress
from regard.training.console import format_duration
from regard.training.data_paths import has_user_data
from regard.training.evaluator import selection_metric
from regard.training.recipe import Recipe
from regard.training.run_folder import RunFolder, read_origin
from regard.training.summary import end_reason

_MAX_PREDICTION_CHARACTERS = 300
_MAX_WEIGHT_NAMES = 50  # names of pretrained weights; start.json lists all of them


def write(folder: RunFolder, recipe: Recipe, *, task: Task, model: nn.Module, progress: Progress) -> None:
    """Write README.md: the model, its training, its metrics and its use."""
    write_text(folder.card, render(folder, recipe, task=task, model=model, progress=progress))


def render(folder: RunFolder, recipe: Recipe, *, task: Task, model: nn.Module, progress: Progress) -> str:
    """Return the model card as Markdown; `model` has the weights of model.safetensors."""
    name, origin = folder.path.resolve().name, read_origin(folder)
    size = f"A `{recipe.model.name}` for `{recipe.task.name}` with {sum(p.numel() for p in model.parameters()):,} "
    title = f"---\nlibrary_name: regard\ntags: [{recipe.task.name}, {recipe.model.name}]\n---\n# {name}"
    use = f"## Use\n\n{_use(folder, recipe, task, model=model, is_imported=origin is not None)}"
    if origin is not None:
        source = f"imported by regard {__version__} from {origin['source']}, a `{origin['architecture']}`."
        limits = "regard did not train this model: its training data and its scores are not known here."
        return "\n\n".join([title, f"{size}parameters, {source}", use, f"## Limits\n\n{limits}"]) + "\n"
    parts = [
        title,
        f"{size}parameters, trained with regard {__version__}.",
        f"## Scores on the validation data\n\n{_scores(recipe, task, progress)}",
        _training(folder, recipe, progress),
        use,
        f"## Limits\n\nThe scores hold for data like the above. Nothing is known about other data.{_stored_data(task)}",
    ]
    return "\n\n".join(parts) + "\n"


def _training(folder: RunFolder, recipe: Recipe, progress: Progress) -> str:
    report = pretrained.read_report(folder.path)
    ended = end_reason(progress.ended or "not yet", recipe.training)
    parts = [
        f"## Training\n\n{progress.step} steps, {progress.epoch} complete epochs, {format_duration(progress.seconds)} "
        f"on {platform.machine() or 'this machine'} with\nPyTorch {torch.__version__}; ended: {ended}. "
        f"Seed {recipe.seed}. Settings of the data:",
        f"```json\n{json.dumps(_data_settings(recipe), ensure_ascii=False, indent=1)}\n```",
        "`config.json` has all other settings, `log.jsonl` the training log.",
        _pretrained(report.describe(_MAX_WEIGHT_NAMES)) if report else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _stored_data(task: Task) -> str:
    """Return a warning if the run contains training examples."""
    file = task.stored_training_data
    if not file:
        return ""
    return (
        f"\n\n`{file}` contains training examples, and predictions may repeat them word by word: share this run only "
        "if the training data may be shared."
    )


def _data_settings(recipe: Recipe) -> dict[str, Any]:
    """Return the settings of [data]; with files of the user, only those that differ from the defaults.

    The defaults describe the built-in data: its name, its size, its columns.
    """
    settings: dict[str, Any] = recipe.to_dict()["data"]
    if not has_user_data(recipe.task.config):
        return settings
    defaults = configs.to_dict(type(recipe.task.config)())
    return {name: value for name, value in settings.items() if value != defaults.get(name)}


def _scores(recipe: Recipe, task: Task, progress: Progress) -> str:
    metric, higher_is_better = selection_metric(recipe, task)
    direction = "higher" if higher_is_better else "lower"
    rows = [f"| {name} | {value:.4g} |" for name, value in progress.best.metrics.items()] or ["| none | |"]
    signatures = [
        f"- {name}: `{signature}`" for name, signature in task.signatures().items() if name in progress.best.metrics
    ]
    return "\n".join(
        [
            f"Of the weights in `model.safetensors` (step {progress.best.step}), {task.evaluation_mode}. "
            f"They were selected by `{metric}`: {direction} is better.{_loss_rule(progress.best.rule)}\n",
            "| metric | value |\n|---|---|",
            *rows,
            *(["", "How the metrics are computed:\n", *signatures] if signatures else []),
        ]
    )


def _loss_rule(rule: str) -> str:
    """Return a sentence if the validation loss decided, and why."""
    reason = rule.removeprefix("loss (").removesuffix(")")
    return "" if reason == rule else f" Against the weights before them the validation loss decided: {reason}."


def _pretrained(lines: list[str]) -> str:
    points = "\n".join(f"- {line.removeprefix('pretrained: ')}" for line in lines)
    return f"Pretrained weights (`{pretrained.REPORT_FILE}` lists all of them):\n\n{points}"


def rename(card: str, name: str, new_name: str) -> str:
    """Return a card with another name of the run in its title and commands; files of the run lose its folder."""
    for old, new in (
        (f"\n# {name}\n", f"\n# {new_name}\n"),
        (f"{shlex.quote(name)}/", ""),
        (f'["{name}/', '["'),
        (f"['{name}/", "['"),
        (f" {shlex.quote(name)} ", f" {shlex.quote(new_name)} "),
        (f" {shlex.quote(name)}\n", f" {shlex.quote(new_name)}\n"),
        (f"load({json.dumps(name, ensure_ascii=False)})", f"load({json.dumps(new_name, ensure_ascii=False)})"),
    ):
        card = card.replace(old, new)
    return card


def _use(folder: RunFolder, recipe: Recipe, task: Task, *, model: nn.Module, is_imported: bool) -> str:
    """Return commands and code. Examples that come from files of the user are not quoted."""
    name = folder.path.resolve().name
    quoted = json.dumps(name, ensure_ascii=False)
    load = f"```python\nimport regard\n\nrun = regard.load({quoted})"
    if not is_imported:
        load += '\nprint(run.evaluate("test"))'
    is_builtin = "." not in recipe.task.name  # tasks of other packages have no command
    verb = getattr(recipe.task.module("tasks"), "VERB", "predict") if is_builtin else "predict"
    command = f"regard {verb} {shlex.quote(name)}"
    if has_user_data(recipe.task.config):
        return f"```bash\n{command} INPUT\n```\n\n{load}\nprint(run.predict([INPUT])[0][0].text)\n```"
    if not task.examples:
        return f"{load}\n```"
    example = task.examples[0]
    prediction = _predict(recipe, task, model=model, example=example)
    if Path(example).is_absolute() or folder.path in Path(example).parents:  # a file of the run
        example = f"{name}/{Path(example).name}"
    return f"""```bash
{f"{command} {shlex.quote(example) if example else ''}".rstrip()}
```

Output:

```text
{prediction[:_MAX_PREDICTION_CHARACTERS]}
```

{load}
print(run.predict([{json.dumps(example, ensure_ascii=False)}])[0][0].text)
```"""


def _predict(recipe: Recipe, task: Task, *, model: nn.Module, example: str) -> str:
    """Return the best prediction for an example. An error in the task must not fail a finished training."""
    options = getattr(recipe.task.module("tasks"), "Options", lambda: None)()
    seed_all(recipe.seed)
    try:
        with eval_mode(model):
            return task.predict(model, [task.parse_input(example)], options, recipe.decoding)[0][0].text
    except Exception as error:  # a third-party task may raise anything
        return f"no prediction ({type(error).__name__}: {error})".replace("\n", " ")
