"""Pretrained weights: copy weights by name from another run, or initialize embedding tables with word vectors.

The copied weights are stored in the folder of the new run before training starts (the tensors in state/, their names in
start.json), so that resuming does not need the source run.
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

from regard.core.errors import CheckpointError, ConfigError
from regard.core.files import file_sha256
from regard.core.pretrained_runs import locate_run
from regard.core.task import Task
from regard.data.text import word_vectors
from regard.training import tensor_files
from regard.training.checkpoint import Tensors
from regard.training.config import Pretrained
from regard.training.pretrained_settings import describe_sizes, length_setting
from regard.training.run_folder import RunFolder, RunIdentity, check_files, read_identity
from regard.training.shape_check import named_weights

REPORT_FILE = "start.json"
TOKEN_TABLES = "*embedding*weight"  # names of tables with a row per token
HEADS = ("readout", "head", "pairs", "pooler", "chain", "pool")  # parts that belong to a task, not to the trunk


@dataclass(frozen=True)
class PretrainedReport:
    """The origin of the initial weights of a run: the content of start.json."""

    run: str
    taken: list[str]  # names of the copied weights
    misfits: dict[str, list[list[int]]]  # name -> shape in the source run, shape in this run
    missing: list[str]  # requested, but not in the source run
    frozen: list[str]
    changed: list[str]  # files of the task that differ from those of the source run
    vectors: dict[str, str] = field(default_factory=dict)  # name of an embedding table -> description of its coverage

    def describe(self, max_names: int = 5) -> list[str]:
        """Describe the copied and the missing weights, with at most `max_names` names per line."""
        count = len(self.taken) + len(self.misfits) + len(self.missing)
        shapes = [
            f"{name} {tuple(source)} in the source run, {tuple(target)} in this run"
            for name, (source, target) in self.misfits.items()
        ]
        lines = {
            f"{len(self.taken)} of {count} weights from {self.run}": self.taken if self.run else [],
            "other shape": shapes,
            "not in the source run": self.missing,
            f"frozen, {len(self.frozen)} weights": self.frozen,
            "files that differ from the source run, so that a weight may belong to another token "
            "(pretrained.vocabulary=true copies the files)": self.changed,
            "word vectors": [f"{name} from {coverage}" for name, coverage in self.vectors.items()],
        }
        return [f"pretrained: {label}: {_first_names(names, max_names)}" for label, names in lines.items() if names]


def _first_names(names: Sequence[str], count: int) -> str:
    more = f", and {len(names) - count} more" if len(names) > count else ""
    return ", ".join(names[:count]) + more


def read_report(folder: Path) -> PretrainedReport | None:
    """Read start.json of a run; None if the run has no pretrained weights."""
    path = folder / REPORT_FILE
    if not path.exists():
        return None
    try:
        report = PretrainedReport(**json.loads(path.read_text(encoding="utf-8")))
        report.describe()
    except (OSError, ValueError, TypeError, AttributeError):
        raise CheckpointError(f"{path}: damaged or not written by regard; restore it from a copy") from None
    return report


def check_source_run(config: Pretrained) -> RunFolder:
    """Return the folder of the source run; raise a ConfigError if it is damaged or has no weights."""
    setting = f"pretrained.run={config.run}" if config.run else f"pretrained.word_vectors={config.word_vectors}"
    source = RunFolder(locate_run(config.run or config.word_vectors))
    try:
        check_files(source)
    except CheckpointError as error:
        raise ConfigError(f"{setting}: {error}") from None
    if not source.model.exists():
        raise ConfigError(f"{setting}: the run has no weights yet; train it first")
    return source


def collect_pretrained(config: Pretrained, model: nn.Module, task: Task) -> tuple[PretrainedReport, Tensors]:
    """Collect the initial weights: weights of the source run that match by pattern and shape, and word vectors."""
    weights = named_weights(model)
    tensors, misfits, missing = _from_run(config, weights, task) if config.run else ({}, {}, [])
    coverage = _from_word_vectors(config, weights, tensors, task) if config.word_vectors else {}
    parameters = dict(model.named_parameters())
    frozen = [name for name in tensors if name in parameters] if config.freeze is True else []
    frozen += _matching(config.frozen_patterns, parameters, "pretrained.freeze")
    if len(frozen) == len(parameters):
        raise ConfigError("pretrained.freeze: all weights of the model are frozen; leave some to train")
    taken = [name for name in tensors if name not in coverage]
    return PretrainedReport(config.run, taken, misfits, missing, frozen, changed=[], vectors=coverage), tensors


def _from_run(
    config: Pretrained, weights: Mapping[str, Tensor], task: Task
) -> tuple[Tensors, dict[str, list[list[int]]], list[str]]:
    """Return the weights of the source run that fit, the shapes of those that do not, and the missing names."""
    source = check_source_run(config)
    source_weights, metadata = tensor_files.read_tensors(source.model)
    read_identity(source).check(source.model, metadata)
    requested = _matching(config.weight_patterns, weights, "pretrained.params")
    shared = [name for name in requested if name in source_weights]
    tensors = {name: source_weights[name] for name in shared if source_weights[name].shape == weights[name].shape}
    if not tensors:
        first = f" ({shared[0]}: {_shapes(source_weights[shared[0]], weights[shared[0]])})" if shared else ""
        raise ConfigError(
            f"pretrained.params={config.params!r}: no matching weight of {config.run} has the shape of the model"
            f"{first}; the run has {_groups(source_weights)}, and {describe_sizes(config.run)}"
        )
    misfits = {
        name: [list(source_weights[name].shape), list(weights[name].shape)] for name in shared if name not in tensors
    }
    for name in misfits:
        if not _may_differ(name, source_weights[name], weights[name]):
            raise _trunk_error(config, name, source_weights[name], weights[name], task)
    return tensors, misfits, [name for name in requested if name not in source_weights]


def _may_differ(name: str, source: Tensor, target: Tensor) -> bool:
    """Return True for a weight of a head, and for a table with a row per token, whose vocabulary may differ."""
    is_token_table = (
        fnmatchcase(name, TOKEN_TABLES)
        and "position" not in name
        and source.dim() == 2
        and source.shape[1:] == target.shape[1:]
    )
    return is_token_table or name.partition(".")[0] in HEADS


def _trunk_error(config: Pretrained, name: str, source: Tensor, target: Tensor, task: Task) -> ConfigError:
    """Return the error for a weight below the head that would stay random, with the setting that decides its shape."""
    length = length_setting(type(getattr(task, "config", None))) if hasattr(task, "config") else None
    if "position" in name and length is not None and source.shape[1:] == target.shape[1:]:
        remedy = f"set data.{length}={len(source)}"
    else:
        remedy = f"set the sizes of the source run: {describe_sizes(config.run)}"
    return ConfigError(
        f"pretrained.run={config.run}: {name} does not fit: {_shapes(source, target)}; {remedy}, or leave it out with "
        "pretrained.params"
    )


def _shapes(source: Tensor, target: Tensor) -> str:
    return f"{tuple(source.shape)} in the source run, {tuple(target.shape)} in this run"


def _from_word_vectors(
    config: Pretrained, weights: Mapping[str, Tensor], tensors: Tensors, task: Task
) -> dict[str, str]:
    """Add embedding tables with word vectors to `tensors`; return the coverage of each table in words."""
    coverage = {}
    for name in _matching([config.embedding], weights, "pretrained.embedding"):
        words = task.token_texts(name)
        if not words:
            raise ConfigError("pretrained.word_vectors: the task has no words; remove pretrained.word_vectors")
        table = tensors.get(name, weights[name]).detach().clone()
        if table.dim() != 2 or len(table) != len(words):
            raise ConfigError(
                f"pretrained.embedding: {name} has the shape {tuple(table.shape)}, not one row for each of the "
                f"{len(words):,} tokens"
            )
        coverage[name] = word_vectors.init_embeddings(table, words, Path(config.word_vectors))
        tensors[name] = table
    if not any(table_coverage.num_covered for table_coverage in coverage.values()):
        line = next(iter(coverage.values())).describe()
        raise ConfigError(f"pretrained.word_vectors: {line}; check their language and spelling")
    return {name: table_coverage.describe() for name, table_coverage in coverage.items()}


def _matching(patterns: Sequence[str], names: Iterable[str], setting: str) -> list[str]:
    names = list(names)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            groups = {name.rsplit(".", depth)[0] + ".*" for name in names for depth in range(1, name.count(".") + 1)}
            close = difflib.get_close_matches(pattern, sorted({*names, *groups}), n=3, cutoff=0.5)
            nearest = ", ".join(close) or _groups(names)
            raise ConfigError(f"{setting}={pattern!r} matches no weight of the model; nearest: {nearest}")
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def _groups(names: Iterable[str]) -> str:
    return ", ".join(sorted({f"{name.partition('.')[0]}.*" if "." in name else name for name in names}))


def save_report(config: Pretrained, report: PretrainedReport, *, draft: Path) -> None:
    """Write start.json of a new run, with the names of the task's files that differ from those of the source run."""
    files = {} if config.vocabulary or not config.run else read_identity(RunFolder(locate_run(config.run))).files
    changed = [name for name in files if (draft / name).is_file() and file_sha256(draft / name) != files[name]]
    table = asdict(report) | {"changed": changed}
    (draft / REPORT_FILE).write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def apply_pretrained(
    report: PretrainedReport, model: nn.Module, *, weights: Path | None, identity: RunIdentity
) -> None:
    """Freeze the frozen weights, and copy the initial weights from the file `weights` unless it is None."""
    targets = named_weights(model)
    if weights is not None:
        tensors, metadata = tensor_files.read_tensors(weights)
        identity.check(weights, metadata)
        with torch.no_grad():
            for name, tensor in tensors.items():
                targets[name].copy_(tensor)
    for name in report.frozen:
        targets[name].requires_grad_(False)
