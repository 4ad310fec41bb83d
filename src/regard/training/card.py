"""The model card: README.md of a run folder, made from what was measured."""

from __future__ import annotations

import json
import platform

import torch
from torch import nn

from regard.core.files import write_text
from regard.core.version import __version__
from regard.training.checkpoint import Progress
from regard.training.console import clock
from regard.training.folder import Folder
from regard.training.recipe import Recipe


def write(folder: Folder, recipe: Recipe, *, model: nn.Module, now: Progress) -> None:
    """README.md with what the model is, how it was trained, what it scored, and how to use it."""
    write_text(folder.card, text(folder, recipe, model=model, now=now))


def text(folder: Folder, recipe: Recipe, *, model: nn.Module, now: Progress) -> str:
    """The card as Markdown."""
    parameters = sum(p.numel() for p in model.parameters())
    name = folder.path.resolve().name
    rows = "\n".join(f"| {metric} | {value:.4g} |" for metric, value in now.best.metrics.items()) or "| none | |"
    return f"""---
library_name: regard
tags: [{recipe.task.name}, {recipe.model.name}]
---
# {name}

A `{recipe.model.name}` for `{recipe.task.name}` with {parameters:,} parameters, trained with regard {__version__}.

## Scores on the validation data

Of the weights in `model.safetensors` (step {now.best.step}), free-running:

| metric | value |
|---|---|
{rows}

## Training

{now.step} steps, {now.epoch} whole epochs, {clock(now.seconds)} on {platform.machine() or "this machine"} with
PyTorch {torch.__version__}; ended by: {now.ended}. Seed {recipe.seed}. Settings that decided the data:

```json
{json.dumps(recipe.to_dict()["data"], ensure_ascii=False, indent=1)}
```

`config.json` has every other setting, `log.jsonl` the course of the training.

## Use

```python
import regard

run = regard.load("{name}")
print(run.evaluate("test"))
```

## Limits

The scores hold for data like the above. Nothing is known about other domains, languages or lengths.
"""
