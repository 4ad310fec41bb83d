"""Load a trained run from its folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.core import trust as trusts
from regard.core.errors import CheckpointError, ConfigError, RegardError
from regard.core.files import FileState, file_state
from regard.core.pretrained_runs import locate_run
from regard.core.seed import preserve_rng_state, seed_all
from regard.core.task import Task
from regard.training import checkpoint, data_paths, tensor_files, third_party
from regard.training.recipe import Recipe, Settings, setting_names, setting_texts
from regard.training.run_folder import RunFolder, check_files, read_identity, read_recipe
from regard.training.shape_check import check_shapes

_CHANGEABLE_SECTIONS = ("training", "decoding")


@dataclass(frozen=True)
class LoadedRun:
    """The recipe, task and model of a run folder."""

    folder: Path
    recipe: Recipe
    task: Task
    model: nn.Module
    trusted: bool = True  # False: an untrusted run, for which nothing is imported or downloaded
    file_states: Mapping[Path, FileState | None] = field(default_factory=dict)  # of the files it was loaded from

    def check_unchanged(self) -> None:
        """Raise a CheckpointError if a file has changed since the run was loaded."""
        for path, state in self.file_states.items():
            if file_state(path) != state:
                raise CheckpointError(f"{path}: has changed since the run was loaded; load the run again")


def load_run(
    path: Path | str, settings: Settings = (), *, device: str | torch.device = "cpu", trust: bool = False
) -> LoadedRun:
    """Load a run with its best weights; `settings` such as `decoding.beam_width=8` override its recipe.

    A run that was trained on this machine may import the packages it was trained with. For any other run no module
    outside of regard is imported, and nothing is downloaded, unless `trust` is set.
    """
    folder = RunFolder(locate_run(path))
    trusted = trust or trusts.is_trusted(folder.path)
    with preserve_rng_state(), trusts.trust_scope(folder.path, trusted=trusted), _wrap_errors(folder, trusted=trusted):
        recipe = read_recipe(folder)
        identity = read_identity(folder)
        paths = (folder.config, folder.model, *(folder.path / name for name in identity.files))
        file_states = {path: state for path in paths if (state := file_state(path)) is not None}
        check_files(folder)
        recipe = change_recipe(recipe, settings)
        task: Task = recipe.task.module("tasks").load(recipe.task.config, folder.path)
        if not folder.model.exists():
            raise CheckpointError(
                f"{folder.model}: no weights yet; continue training",
                command=f"regard train --resume {folder.path}",
                python=f"regard.resume({str(folder.path)!r})",
            )
        build = partial(build_model, recipe, task)
        check_shapes(build, tensor_files.read_shapes(folder.model), config=folder.config, weights=folder.model)
        tensors, metadata = tensor_files.read_tensors(folder.model)
        identity.check(folder.model, metadata)
        check_finite(tensors, folder.model)
        model = build()
        checkpoint.restore_weights(model, tensors, folder.model)
        model = model.to(device).eval()
        third_party.check_parts(model, recipe.decoding)
    return LoadedRun(folder.path, recipe, task, model, trusted, file_states)


def check_finite(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Refuse weights with NaN or infinity: such a model would still give an answer, which means nothing."""
    broken = [name for name, tensor in tensors.items() if not bool(torch.isfinite(tensor).all())]
    if broken:
        names = ", ".join(broken[:3]) + (f" and {len(broken) - 3} more" if len(broken) > 3 else "")
        raise CheckpointError(
            f"{path}: the weights are not finite: {names} has NaN or infinity; restore the file from a copy, or train "
            "the run again"
        )


def build_model(recipe: Recipe, task: Task) -> nn.Module:
    """Build the model, with its weights initialized from the seed."""
    seed_all(recipe.seed)
    model: nn.Module = recipe.model.module("models").build(recipe.model.config, task.spec)
    return model


def change_recipe(recipe: Recipe, settings: Settings) -> Recipe:
    """Return the recipe of a trained run with changed settings: [training], [decoding] and the paths of the data."""
    data = data_paths.changeable_settings(recipe)
    names = setting_names(settings)
    for setting, name in zip(setting_texts(settings), names, strict=True):
        section = name.partition(".")[0]
        if section not in _CHANGEABLE_SECTIONS and name not in data:
            paths = "".join(f", {path}=…" for path in data)
            raise ConfigError(
                f"{setting}: a trained run keeps its {section}; only training.…, decoding.…{paths} can change"
            )
    return data_paths.with_absolute_paths(recipe.with_settings(settings)) if settings else recipe


@contextmanager
def _wrap_errors(folder: RunFolder, *, trusted: bool) -> Iterator[None]:
    """Turn any exception of an untrusted run into a one-line CheckpointError; for trusted runs it is a bug and raised
    unchanged."""
    try:
        yield
    except RegardError:
        raise
    except Exception as error:
        if trusted:
            raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise CheckpointError(f"{folder.config}: the run cannot be built ({reason})") from error
