"""`regard evaluate`: the scores of a run on a split, with how they were computed; kept in the run folder."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli import help
from regard.cli.help import Section
from regard.cli.settings import USE, Folder, Json, SettingsCommand, Trust, settings_of, to_options
from regard.cli.tables import tables
from regard.core.errors import DataError, FileError

if TYPE_CHECKING:
    from regard.api.run import Run

PANEL = USE
DEFAULT_SPLIT, FALLBACK_SPLIT = (
    "test",
    "valid",
)  # the split that is scored where none is named, and the one where that is not there
COMPONENT_SETTINGS = ("decoding=", "model=")  # settings without a dot that are no matter of an evaluation alone


class Command(SettingsCommand):
    """Its help has what an evaluation of the run's task can be told."""

    def sections(self, args: Sequence[str]) -> Iterable[Section]:
        """The settings of the task's file, of [data] and of the decoder."""
        return help.evaluation_sections(args)


def run(
    context: typer.Context,
    folder: Folder,
    split: Annotated[
        str | None, typer.Option(help="Which part of the data; usually test, or valid where there is no test.")
    ] = None,
    *,
    as_json: Json = False,
    trust: Trust = False,
) -> None:
    """Score a run on held-out data and say how the scores were computed.

    decoding=beam … changes the search. data.path=… scores it on other data, or finds its own that has moved.
    """
    from rich.console import Console

    from regard.api.run import load

    settings = settings_of(context)
    own = [
        setting
        for setting in settings
        if "." not in setting.partition("=")[0] and not setting.startswith(COMPONENT_SETTINGS)
    ]
    run = load(folder, [setting for setting in settings if setting not in own], trust=trust)
    asked = to_options(own, run.evaluation_options)
    part = select_split(run, split, asked)
    report = evaluate(run, part, asked)
    if as_json:
        print(json.dumps(report, ensure_ascii=False))
        return
    console = Console(markup=False)
    place = report.get(
        "data", part if split or part == DEFAULT_SPLIT else f"{part}, as its data has no {DEFAULT_SPLIT} split"
    )
    for table in tables(report["scores"], report["signatures"], title=f"{folder} on {place}"):
        console.print(table, soft_wrap=True)


def select_split(run: Run, split: str | None, options: Mapping[str, Any] = MappingProxyType({})) -> str:
    """The split to score: the one that is named, else the usual one, or the other where the run's data has not that."""
    if split not in (None, DEFAULT_SPLIT) or not _lacks_usual(run, options):
        return split or DEFAULT_SPLIT
    if split is None:
        return FALLBACK_SPLIT
    raise DataError(f"{run.folder}: its data has no split {split!r}; say --split {FALLBACK_SPLIT}")


def _lacks_usual(run: Run, asked: Mapping[str, Any]) -> bool:
    """Whether the data that a run was trained with is known to have the other split alone."""
    from regard.training.run_folder import RunFolder, read_identity

    if not run.uses_training_data:
        return False
    known = (
        run.evaluation_task(**asked).fingerprint() if asked else read_identity(RunFolder(run.folder)).fingerprint or {}
    )
    return DEFAULT_SPLIT not in known and FALLBACK_SPLIT in known


def evaluate(run: Run, split: str, options: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Scores, their signatures and the time they took, as written to evaluation-<split>-<decoder>.json.

    Of other data than the run's own (`asked`, or settings of [data]) nothing is kept in the run folder.
    """
    begin = time.perf_counter()
    scores = run.evaluate(split, **options) | run.extra_metrics(split, **options)
    decoding = run.recipe.to_dict().get("decoding", {})
    other = [f"{name}={value}" for name, value in options.items()]
    other += [] if run.uses_training_data else [setting for setting in run.settings if setting.startswith("data.")]
    report = {
        "split": split,
        **({"data": " ".join(other)} if other else {}),
        "decoding": decoding,
        "scores": scores,
        "signatures": run.evaluation_task(**options).signatures(),
        "parameters": run.parameters,
        "seconds": round(time.perf_counter() - begin, 1),
    }
    if not other:
        _keep(run.folder / f"evaluation-{split}-{decoding.get('name', 'none')}.json", report)
    return report


def _keep(path: Path, report: dict[str, Any]) -> None:
    """Write the report into the run folder; where that cannot be written to, the scores are printed all the same."""
    from regard.core.checksummed_json import write_json

    try:
        write_json(path, report)
    except FileError as wrong:
        print(f"regard: the scores are not kept in the run folder: {wrong}", file=sys.stderr)
