"""`regard average`: a new run whose weights are the mean of the last evaluations' weights of another."""

from __future__ import annotations

import shutil
from pathlib import Path

from regard.core.errors import CheckpointError
from regard.core.files import replacing
from regard.training import card, sealed
from regard.training.checkpoint import Best, Progress, mean
from regard.training.folder import Folder, read_config
from regard.training.run import load_parts


def average(run: Path | str, *, last: int, out: Path | str) -> Path:
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
        with replacing(target.path / name) as part:
            shutil.copyfile(source.path / name, part)
    sealed.write_tensors(target.model, tensors, {"step": steps[-1], "metrics": {}, "average": steps})
    with replacing(target.config) as part:
        shutil.copyfile(source.config, part)
    parts = load_parts(target.path)
    now = Progress(
        step=steps[-1], best=Best(step=steps[-1]), ended="averaging " + ", ".join(f"step {s}" for s in steps)
    )
    card.write(target, parts.recipe, task=parts.task, model=parts.model, now=now)
    return target.path
