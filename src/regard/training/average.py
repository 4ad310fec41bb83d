"""`regard average`: a new run whose weights are the mean of the last evaluations' weights of another."""

from __future__ import annotations

import shutil
from pathlib import Path

from regard.core import trust as trusts
from regard.core.errors import CheckpointError, pluralize
from regard.training import model_card, tensor_files
from regard.training.checkpoint import BestEvaluation, Progress, mean_weights
from regard.training.run_folder import RunFolder, check_available, check_files, create_run_folder, read_identity
from regard.training.train import load_run


def average(run: Path | str, *, last: int, out: Path | str, trust: bool = False) -> Path:
    """The mean of the last `last` evaluations' weights of a run, as a run of its own in `out`."""
    source, target = RunFolder(Path(run)), RunFolder(Path(out))
    check_files(source)
    check_available(target.path)
    kept = source.snapshots()
    if len(kept) < last:
        raise CheckpointError(
            f"{source.path} keeps the weights of {pluralize(len(kept), 'evaluation')}, not of {last}; "
            f"train with training.evaluation.average_last={last}"
        )
    identity, chosen = read_identity(source), kept[len(kept) - last :]
    tensors = mean_weights(chosen, identity)
    steps = [int(path.stem.partition("-")[2]) for path in chosen]
    now = Progress(
        step=steps[-1],
        best=BestEvaluation(step=steps[-1]),
        run=identity.run_id,
        ended="averaging " + ", ".join(f"step {step}" for step in steps),
    )
    trusted = trust or trusts.is_trusted(source.path)

    def fill(draft: RunFolder) -> None:
        for name in (*identity.files, source.config.name):
            (draft.path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source.path / name, draft.path / name)
        facts: tensor_files.JSONObject = {"run": identity.run_id, "step": steps[-1], "metrics": {}, "average": steps}
        tensor_files.write_tensors(draft.model, tensors, facts)
        load_run(draft.path, trust=trusted)  # what cannot be loaded is not made

    create_run_folder(target.path, fill)
    if trusted:
        trusts.mark_trusted(target.path)
    parts = load_run(target.path, trust=trusted)
    model_card.write(target, parts.recipe, task=parts.task, model=parts.model, progress=now)
    return target.path
