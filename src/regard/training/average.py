"""`regard average`: a new run whose weights are the mean of the last evaluations' weights of another."""

from __future__ import annotations

import shutil
from pathlib import Path

from regard.core.errors import CheckpointError
from regard.training import card, files
from regard.training.folder import Folder
from regard.training.mean import mean
from regard.training.progress import Best, Progress
from regard.training.run import Run, load, read_config


def average(run: Path | str, *, last: int, out: Path | str) -> Run:
    """The mean of the last `last` evaluations' weights of a run, as a run of its own in `out`."""
    source, target = Folder(Path(run)), Folder(Path(out))
    table = read_config(source)
    if target.config.exists():
        raise CheckpointError(f"{target.path} already holds a run; choose another --out")
    kept = source.snapshots()
    if len(kept) < last:
        raise CheckpointError(
            f"{source.path} keeps the weights of {len(kept)} evaluations, not {last}; "
            f"train with training.evaluation.average={last}"
        )
    chosen = kept[len(kept) - last :]
    tensors = mean(chosen)
    steps = [int(path.stem.partition("-")[2]) for path in chosen]
    target.make()
    for name in table.get("files", {}):
        (target.path / name).parent.mkdir(parents=True, exist_ok=True)
        with files.replacing(target.path / name) as part:
            shutil.copyfile(source.path / name, part)
    files.write_tensors(target.model, tensors, {"step": steps[-1], "metrics": {}, "average": steps})
    with files.replacing(target.config) as part:
        shutil.copyfile(source.config, part)
    made = load(target.path)
    now = Progress(
        step=steps[-1], best=Best(step=steps[-1]), ended="averaging " + ", ".join(f"step {s}" for s in steps)
    )
    card.write(target, made.recipe, model=made.model, now=now)
    return made
