"""Starting from another run: its weights by name, its vocabulary, and which weights stay as they are. Or from word
vectors, which become the rows of a table of embeddings.

What is taken is written into the new run's own folder before training begins (the weights into state/, their names into
start.json), so that resuming needs no other run.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.core.errors import CheckpointError, ConfigError, RegardError
from regard.core.files import file_sha256
from regard.core.task import Task
from regard.data.text import word_vectors
from regard.training import tensor_files
from regard.training.checkpoint import Tensors
from regard.training.config import Pretrained
from regard.training.recipe import Recipe
from regard.training.run_folder import RunFolder, RunIdentity, check_files, read_config, read_identity
from regard.training.shape_check import named_weights

REPORT_FILE = "start.json"


@dataclass(frozen=True)
class PretrainedReport:
    """What a run began with: the content of start.json."""

    run: str
    taken: list[str]  # names of weights
    misfits: dict[str, list[list[int]]]  # name -> its shape in that run, its shape here
    missing: list[str]  # asked for, but not in that run
    frozen: list[str]
    changed: list[str]  # files of the task that are others here than in that run
    vectors: dict[str, str] = field(default_factory=dict)  # name of a table -> how many of its words have got vectors

    def describe(self, max_names: int = 5) -> list[str]:
        """What was taken and what was not, in words, with so many names of each kind."""
        count = len(self.taken) + len(self.misfits) + len(self.missing)
        shapes = [f"{name} {tuple(there)} there and {tuple(here)} here" for name, (there, here) in self.misfits.items()]
        kinds = {
            f"{len(self.taken)} of {count} weights from {self.run}": self.taken if self.run else [],
            "did not fit": shapes,
            "not in that run": self.missing,
            f"frozen, {len(self.frozen)} weights": self.frozen,
            "files other than that run's, so that a weight may belong to another token (pretrained.vocabulary=true takes "
            "that run's)": self.changed,
            "word vectors": [f"{name} from {how}" for name, how in self.vectors.items()],
        }
        return [f"start: {kind}: {_listed(names, max_names)}" for kind, names in kinds.items() if names]


def _listed(names: Sequence[str], shown: int) -> str:
    more = f", and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def read_report(folder: Path) -> PretrainedReport | None:
    """What a run began with; None if it started from nothing."""
    path = folder / REPORT_FILE
    if not path.exists():
        return None
    try:
        taken = PretrainedReport(**json.loads(path.read_text(encoding="utf-8")))
        taken.describe()
    except (OSError, ValueError, TypeError, AttributeError):
        raise CheckpointError(f"{path}: damaged or not written by regard; restore it from a copy") from None
    return taken


def file_checksums(folder: RunFolder) -> dict[str, str]:
    """The checksums of the files that task and start have put into the folder of a new run."""
    files = sorted(path for path in folder.path.rglob("*") if path.is_file() and folder.state not in path.parents)
    return {path.relative_to(folder.path).as_posix(): file_sha256(path) for path in files}


def check_source_run(config: Pretrained) -> RunFolder:
    """The folder of the other run, whole and with weights, or an error that says what is wrong with it."""
    given = f"pretrained.run={config.run}" if config.run else f"pretrained.word_vectors={config.word_vectors}"
    other = RunFolder(Path(config.run or config.word_vectors))
    try:
        check_files(other)
    except CheckpointError as wrong:
        raise ConfigError(f"{given}: {wrong}") from None
    if not other.model.exists():
        raise ConfigError(f"{given}: it has no weights yet; train it first")
    return other


def build_task(recipe: Recipe) -> Task:
    """The task of a new run, with the vocabulary of the run it starts from if the recipe says so."""
    build, config = recipe.task.module("tasks").build, recipe.task.config
    if recipe.pretrained is None or not recipe.pretrained.vocabulary:
        task: Task = build(config)
        return task
    if not recipe.pretrained.run and Path(recipe.pretrained.word_vectors).is_file():
        raise ConfigError(
            "pretrained.vocabulary=true takes the vocabulary of a run; give pretrained.run=…, or a run's vectors"
        )
    other = check_source_run(recipe.pretrained)
    theirs = str(read_config(other).get("task"))
    try:
        task = build(config, folder=other.path)
    except (RegardError, OSError, LookupError, ValueError) as wrong:
        if theirs == recipe.task.name:
            raise
        raise ConfigError(
            f"pretrained.vocabulary=true: the task {recipe.task.name} cannot be built with the files of {other.path}, "
            f"a run of the task {theirs} ({wrong}); set pretrained.vocabulary=false"
        ) from None
    return task


def collect_pretrained(config: Pretrained, model: nn.Module, task: Task) -> tuple[PretrainedReport, Tensors]:
    """What the model begins with: weights of the other run that the patterns name and that fit, and word vectors."""
    own = named_weights(model)
    tensors, misfits, missing = _of_run(config, own) if config.run else ({}, {}, [])
    covered = _of_vectors(config, own, tensors, task) if config.word_vectors else {}
    parameters = dict(model.named_parameters())
    frozen = [name for name in tensors if name in parameters] if config.freeze is True else []
    frozen += _matching(config.frozen_patterns, parameters, "start.freeze")
    if len(frozen) == len(parameters):
        raise ConfigError("start.freeze: all weights of the model are frozen, and none is left to train")
    taken = [name for name in tensors if name not in covered]
    return PretrainedReport(config.run, taken, misfits, missing, frozen, changed=[], vectors=covered), tensors


def _of_run(start: Pretrained, own: Mapping[str, Tensor]) -> tuple[Tensors, dict[str, list[list[int]]], list[str]]:
    """The weights of the other run that fit; shapes there and here of those that do not; names that are not there."""
    other = check_source_run(start)
    theirs, facts = tensor_files.read_tensors(other.model)
    read_identity(other).check(other.model, facts)
    wanted = _matching(start.weight_patterns, own, "start.only")
    shared = [name for name in wanted if name in theirs]
    tensors = {name: theirs[name] for name in shared if theirs[name].shape == own[name].shape}
    if not tensors:
        raise ConfigError(
            f"pretrained.params={start.params!r}: no such weight of {start.run} fits; it has {_groups(theirs)}"
        )
    misfits = {name: [list(theirs[name].shape), list(own[name].shape)] for name in shared if name not in tensors}
    return tensors, misfits, [name for name in wanted if name not in theirs]


def _of_vectors(start: Pretrained, own: Mapping[str, Tensor], tensors: Tensors, task: Task) -> dict[str, str]:
    """Word vectors become rows of the tables that the pattern names -> how many words of each table have got one."""
    found = {}
    for name in _matching([start.embedding], own, "start.table"):
        words = task.token_texts(name)
        if not words:
            raise ConfigError("start.vectors: the task has no words to give vectors to; take start.vectors out")
        table = tensors.get(name, own[name]).detach().clone()
        if table.dim() != 2 or len(table) != len(words):
            shape = tuple(table.shape)
            raise ConfigError(f"start.table: {name} has the shape {shape}, no row for each of {len(words):,} tokens")
        found[name] = word_vectors.init_embeddings(table, words, Path(start.word_vectors))
        tensors[name] = table
    if not any(each.num_covered for each in found.values()):
        line = next(iter(found.values())).describe()
        raise ConfigError(f"start.vectors: {line}; they are of another language, or spelt otherwise")
    return {name: each.describe() for name, each in found.items()}


def _matching(patterns: Sequence[str], names: Iterable[str], setting: str) -> list[str]:
    own = list(names)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in own):
            groups = {name.rsplit(".", depth)[0] + ".*" for name in own for depth in range(1, name.count(".") + 1)}
            close = difflib.get_close_matches(pattern, sorted({*own, *groups}), n=3, cutoff=0.5)
            nearest = ", ".join(close) or _groups(own)
            raise ConfigError(f"{setting}={pattern!r} matches no weight of the model; nearest: {nearest}")
    return [name for name in own if any(fnmatchcase(name, pattern) for pattern in patterns)]


def _groups(names: Iterable[str]) -> str:
    return ", ".join(sorted({f"{name.partition('.')[0]}.*" if "." in name else name for name in names}))


def save_report(config: Pretrained, report: PretrainedReport, *, draft: Path) -> None:
    """start.json among the files of a new run; the task's files that differ from the other run's are noted in it."""
    files = {} if config.vocabulary or not config.run else read_identity(RunFolder(Path(config.run))).files
    changed = [name for name in files if (draft / name).is_file() and file_sha256(draft / name) != files[name]]
    table = asdict(report) | {"changed": changed}
    (draft / REPORT_FILE).write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def apply_pretrained(
    report: PretrainedReport, model: nn.Module, *, weights: Path | None, identity: RunIdentity
) -> None:
    """Freeze what the run keeps frozen, and copy the weights it began with where they are given."""
    own = named_weights(model)
    if weights is not None:
        tensors, facts = tensor_files.read_tensors(weights)
        identity.check(weights, facts)
        with torch.no_grad():
            for name, tensor in tensors.items():
                own[name].copy_(tensor)
    for name in report.frozen:
        own[name].requires_grad_(False)
