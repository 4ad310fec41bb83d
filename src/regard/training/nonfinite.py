"""A loss that is no number: what was in the batch, written down for a look."""

from __future__ import annotations

import json
from typing import Any

from torch import Tensor

from regard.core.errors import RegardError
from regard.core.files import write_text
from regard.core.protocols import Indices
from regard.core.task import Task
from regard.training.folder import Folder
from regard.training.progress import Progress
from regard.training.step import Outcome

_LARGE = 20_000  # numbers; larger tensors are summed up


class Diverged(RegardError):
    """The loss or the gradient is no longer a number."""


def write(folder: Folder, task: Task, *, examples: Indices, outcome: Outcome, now: Progress) -> None:
    """Step, example numbers and the batch itself, into nonfinite.json."""
    table = {
        "step": now.step,
        "epoch": now.epoch,
        "loss": str(outcome.loss),
        "norm": str(outcome.norm),
        "examples": [int(number) for number in examples],
        "batch": plain(task.batch(examples)),
    }
    write_text(folder.nonfinite, json.dumps(table, ensure_ascii=False, indent=1))


def plain(batch: Any) -> Any:
    """A batch as lists and names for JSON; long tensors as their shape and range."""
    if isinstance(batch, Tensor):
        if batch.numel() <= _LARGE:
            return batch.tolist()
        low, high = batch.min().item(), batch.max().item()
        return {"shape": list(batch.shape), "least": low, "greatest": high}
    if isinstance(batch, tuple):
        parts = [plain(part) for part in batch]
        return dict(zip(batch._fields, parts, strict=True)) if hasattr(batch, "_fields") else parts
    return batch if batch is None or isinstance(batch, bool | int | float | str) else str(batch)


def explain(folder: Folder, now: Progress, outcome: Outcome) -> str:
    """What happened, where to look, what to do: one line."""
    what = f"loss {outcome.loss}" if outcome.loss != outcome.loss or abs(outcome.loss) == float("inf") else "gradient"
    saved = folder.checkpoints()
    back = f"the last checkpoint is {saved[-1].name}" if saved else "there is no checkpoint yet"
    return (
        f"{what} is not finite at step {now.step} (epoch {now.epoch}, batch {now.index}); its examples are in "
        f"{folder.nonfinite}; {back}; lower training.optimizer.lr, or set training.optimizer.nonfinite=skip"
    )
