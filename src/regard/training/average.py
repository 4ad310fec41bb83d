"""`regard average`: a new run whose weights are the mean of the last evaluations' weights of another."""

from __future__ import annotations

import shutil
from pathlib import Path

from regard.core import trust as trusts
from regard.core.errors import CheckpointError, pluralize
from regard.training import model_card, tensor_files
from regard.training.checkpoint import Best, Progress, mean
from regard.training.run_folder import Folder, check_files, check_free, create, read_identity
from regard.training.train import load_parts


def average(run: Path | str, *, last: int, out: Path | str, trust: bool = False) -> Path:
    """The mean of the last `last` evaluations' weights of a run, as a run of its own in `out`."""
    source, target = Folder(Path(run)), Folder(Path(out))
    check_files(source)
    check_free(target.path)
    kept = source.snapshots()
    if len(kept) < last:
        raise CheckpointError(
            f"{source.path} keeps the weights of {pluralize(len(kept), 'evaluation')}, not of {last}; "
            f"train with training.evaluation.average_last={last}"
        )
    identity, chosen = read_identity(source), kept[len(kept) - last :]
    tensors = mean(chosen, identity)
    steps = [int(path.stem.partition("-")[2]) for path in chosen]
    now = Progress(
        step=steps[-1],
        best=Best(step=steps[-1]),
        run=identity.run,
        ended="averaging " + ", ".join(f"step {step}" for step in steps),
    )
    trusted = trust or trusts.is_trusted(source.path)

    def fill(draft: Folder) -> None:
        for name in (*identity.files, source.config.name):
            (draft.path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source.path / name, draft.path / name)
        facts: tensor_files.JSONObject = {"run": identity.run, "step": steps[-1], "metrics": {}, "average": steps}
        tensor_files.write_tensors(draft.model, tensors, facts)
        load_parts(draft.path, trust=trusted)  # what cannot be loaded is not made

    create(target.path, fill)
    if trusted:
        trusts.mark_trusted(target.path)
    parts = load_parts(target.path, trust=trusted)
    model_card.write(target, parts.recipe, task=parts.task, model=parts.model, now=now)
    return target.path
