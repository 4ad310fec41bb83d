"""`regard average`: create a run whose weights are the mean of the last evaluation snapshots of another run."""

from __future__ import annotations

import shutil
from pathlib import Path

from regard.core import trust as trusts
from regard.core.checksummed_json import JSONObject
from regard.core.errors import CheckpointError, pluralize
from regard.training import model_card, tensor_files
from regard.training.checkpoint import BestEvaluation, Progress, mean_weights
from regard.training.load_run import load_run
from regard.training.run_folder import RunFolder, check_available, check_files, create_run_folder, read_identity


def average(run: Path | str, *, last: int, out: Path | str, trust: bool = False) -> Path:
    """Average the weights of the last `last` evaluations of a run into a new run folder `out`, and return it."""
    source, target = RunFolder(Path(run)), RunFolder(Path(out))
    check_files(source)
    check_available(target.path)
    snapshots = source.snapshots()
    if len(snapshots) < last:
        raise CheckpointError(
            f"{source.path} stores the weights of {pluralize(len(snapshots), 'evaluation')}, not of {last}; "
            f"train with training.evaluation.average_last={last}"
        )
    identity, selected = read_identity(source), snapshots[len(snapshots) - last :]
    tensors = mean_weights(selected, identity)
    steps = [int(path.stem.partition("-")[2]) for path in selected]
    progress = Progress(
        step=steps[-1],
        best=BestEvaluation(step=steps[-1]),
        run=identity.run_id,
        ended="averaging " + ", ".join(f"step {step}" for step in steps),
    )
    trusted = trust or trusts.is_trusted(source.path)

    def write_files(draft: RunFolder) -> None:
        for name in (*identity.files, source.config.name):
            (draft.path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source.path / name, draft.path / name)
        metadata: JSONObject = {"run": identity.run_id, "step": steps[-1], "metrics": {}, "average": steps}
        tensor_files.write_tensors(draft.model, tensors, metadata)
        load_run(draft.path, trust=trusted)  # fails before the folder is created if the run cannot be loaded

    create_run_folder(target.path, write_files)
    if trusted:
        trusts.mark_trusted(target.path)
    parts = load_run(target.path, trust=trusted)
    model_card.write(target, parts.recipe, task=parts.task, model=parts.model, progress=progress)
    return target.path
