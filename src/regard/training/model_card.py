"""The model card: README.md of a run folder, made from what was measured and from what the task says of itself."""

from __future__ import annotations

import json
import platform
import shlex

import torch
from torch import nn

from regard.core.files import write_text
from regard.core.inference_mode import eval_mode
from regard.core.seed import seed_all
from regard.core.task import Task
from regard.core.version import __version__
from regard.training import pretrained
from regard.training.checkpoint import Progress
from regard.training.console import format_duration
from regard.training.evaluator import selection_metric
from regard.training.recipe import Recipe
from regard.training.run_folder import RunFolder
from regard.training.summary import end_reason

_LONGEST = 300  # characters of an example or its answer
_NAMES = 50  # of weights that were taken from another run; all of them are in start.json


def write(folder: RunFolder, recipe: Recipe, *, task: Task, model: nn.Module, progress: Progress) -> None:
    """README.md with what the model is, how it was trained, what it scored, and how to use it."""
    write_text(folder.card, render(folder, recipe, task=task, model=model, progress=progress))


def render(folder: RunFolder, recipe: Recipe, *, task: Task, model: nn.Module, progress: Progress) -> str:
    """The card as Markdown; `model` has the weights that the run keeps."""
    name, taken = folder.path.resolve().name, pretrained.read_report(folder.path)
    ended = end_reason(progress.ended or "not yet", recipe.training)
    parts = [
        f"---\nlibrary_name: regard\ntags: [{recipe.task.name}, {recipe.model.name}]\n---\n# {name}",
        f"A `{recipe.model.name}` for `{recipe.task.name}` with {sum(p.numel() for p in model.parameters()):,} "
        f"parameters, trained with regard {__version__}.",
        f"## Scores on the validation data\n\n{_scores(recipe, task, progress)}",
        f"## Training\n\n{progress.step} steps, {progress.epoch} whole epochs, {format_duration(progress.seconds)} on "
        f"{platform.machine() or 'this machine'} with\nPyTorch {torch.__version__}; ended: {ended}. "
        f"Seed {recipe.seed}. Settings that decided the data:",
        f"```json\n{json.dumps(recipe.to_dict()['data'], ensure_ascii=False, indent=1)}\n```",
        "`config.json` has every other setting, `log.jsonl` the course of the training.",
        _started(taken.describe(_NAMES)) if taken else "",
        f"## Use\n\n{_use(recipe, task, model=model, name=name)}",
        "## Limits\n\nThe scores hold for data like the above. Nothing is known about other data.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _scores(recipe: Recipe, task: Task, now: Progress) -> str:
    metric, more = selection_metric(recipe, task)
    direction = "more" if more else "less"
    rows = [f"| {name} | {value:.4g} |" for name, value in now.best.metrics.items()] or ["| none | |"]
    computed = [f"- {name}: `{how}`" for name, how in task.signatures().items() if name in now.best.metrics]
    return "\n".join(
        [
            f"Of the weights in `model.safetensors` (step {now.best.step}), {task.evaluation_mode}. "
            f"They were chosen by `{metric}`: {direction} is better.\n",
            "| metric | value |\n|---|---|",
            *rows,
            *(["", "How they are computed:\n", *computed] if computed else []),
        ]
    )


def _started(lines: list[str]) -> str:
    points = "\n".join(f"- {line.removeprefix('start: ')}" for line in lines)
    return f"It started from another run (`{pretrained.REPORT_FILE}` names every weight):\n\n{points}"


def _use(recipe: Recipe, task: Task, *, model: nn.Module, name: str) -> str:
    load = f'```python\nimport regard\n\nrun = regard.load("{name}")\nprint(run.evaluate("test"))'
    if not task.examples:
        return f"{load}\n```"
    example = task.examples[0]
    own_verb = "." not in recipe.task.name  # a task of another package has no verb of its own on the command line
    verb = getattr(recipe.task.module("tasks"), "VERB", "predict") if own_verb else "predict"
    command = f"regard {verb} {name} {shlex.quote(example) if example else ''}".rstrip()
    answer = _answer(recipe, task, model=model, example=example)
    return f"""```bash
{command}
```

It answers:

```text
{answer[:_LONGEST]}
```

{load}
print(run.answer([{example!r}])[0][0].text)
```"""


def _answer(recipe: Recipe, task: Task, *, model: nn.Module, example: str) -> str:
    """The best answer to an example; a task that fails here must not spoil the end of a training that went well."""
    options = getattr(recipe.task.module("tasks"), "Options", lambda: None)()
    seed_all(recipe.seed)
    try:
        with eval_mode(model):
            return task.predict(model, [task.parse_input(example)], options, recipe.decoding)[0][0].text
    except Exception as wrong:  # whatever a stranger's task can raise
        return f"no answer ({type(wrong).__name__}: {wrong})".replace("\n", " ")
