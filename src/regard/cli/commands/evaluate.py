"""`regard evaluate`: compute the metrics of a run on a split and store them in the run folder."""

from __future__ import annotations

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
from regard.core.pretrained_runs import is_read_only
from regard.core.strict_json import to_strict_json

if TYPE_CHECKING:
    from regard.api.run import Run
    from regard.core.example_statistics import Collected

PANEL = USE
DEFAULT_SPLIT, FALLBACK_SPLIT = "test", "valid"  # without --split; the second if the data has no test split
COMPONENT_SETTINGS = ("decoding=", "model=")  # settings without a dot that are not evaluation options


class Command(SettingsCommand):
    """Its help lists the evaluation options of the task of the run."""

    def sections(self, args: Sequence[str]) -> Iterable[Section]:
        return help.evaluation_sections(args)


def run(
    context: typer.Context,
    folder: Folder,
    split: Annotated[
        str | None, typer.Option(help="The split of the data; test, or valid if there is no test split.")
    ] = None,
    *,
    baselines: Annotated[bool, typer.Option("--baselines", help="Also train and evaluate simple baselines.")] = False,
    as_json: Json = False,
    trust: Trust = False,
) -> None:
    """Evaluate a run on held-out data and print how the metrics were computed.

    decoding=beam … changes the search. data.path=… evaluates on other data, or on data that was moved.
    """
    from rich.console import Console

    from regard.api.run import load

    settings = settings_of(context)
    evaluation_settings = [
        setting
        for setting in settings
        if "." not in setting.partition("=")[0] and not setting.startswith(COMPONENT_SETTINGS)
    ]
    run = load(folder, [setting for setting in settings if setting not in evaluation_settings], trust=trust)
    options = to_options(evaluation_settings, run.evaluation_options)
    chosen_split = select_split(run, split, options)
    report = evaluate(run, chosen_split, options)
    if baselines:
        report["baselines"] = run.baselines(chosen_split)
    if as_json:
        print(to_strict_json(report))
        return
    console = Console(markup=False)
    is_fallback = not split and chosen_split != DEFAULT_SPLIT
    description = f"{chosen_split}, as its data has no {DEFAULT_SPLIT} split" if is_fallback else chosen_split
    changed = [
        setting for setting in settings if setting not in evaluation_settings and not setting.startswith("data.")
    ]
    title = ", ".join([f"{folder} on {report.get('data', description)}", *changed])
    for table in tables(report["scores"], report["signatures"], title=title, intervals=report.get("intervals", {})):
        console.print(table, soft_wrap=True)
    if baselines:
        for table in tables(report["baselines"], {}, title=f"simple baselines on {description}"):
            console.print(table, soft_wrap=True)


def select_split(run: Run, split: str | None, options: Mapping[str, Any] = MappingProxyType({})) -> str:
    """Return the named split, or the default split, or the fallback if the data of the run has no default split."""
    if split not in (None, DEFAULT_SPLIT) or not _lacks_default_split(run, options):
        return split or DEFAULT_SPLIT
    if split is None:
        return FALLBACK_SPLIT
    raise DataError(f"{run.folder}: its data has no split {split!r}; use --split {FALLBACK_SPLIT}")


def _lacks_default_split(run: Run, options: Mapping[str, Any]) -> bool:
    """Return True if the training data of the run is known to have only the fallback split."""
    from regard.training.run_folder import RunFolder, read_identity

    if not run.uses_training_data:
        return False
    splits: Mapping[str, str]
    if options:
        splits = run.evaluation_task(**options).fingerprint()
    else:
        splits = read_identity(RunFolder(run.folder)).fingerprint or {}
    return DEFAULT_SPLIT not in splits and FALLBACK_SPLIT in splits


def evaluate(run: Run, split: str, options: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Compute metrics, signatures and time, and store them in the run folder under their settings.

    Results on other data (`options`, or [data] settings) are not stored.
    """
    from regard.core.example_statistics import collect_statistics
    from regard.training.run_folder import RunFolder, read_saved_metrics

    started_at = time.perf_counter()
    with collect_statistics() as collected:
        scores = run.evaluate(split, **options)
    scores |= run.extra_metrics(split, **options)
    decoding = run.recipe.to_dict().get("decoding", {})
    changes = [f"{name}={value}" for name, value in options.items()]
    settings = [str(setting) for setting in run.settings]
    changes += [] if run.uses_training_data else [setting for setting in settings if setting.startswith("data.")]
    report = {
        "split": split,
        **({"data": " ".join(changes)} if changes else {}),
        "decoding": decoding,
        "settings": [setting for setting in settings if not setting.startswith(("data.", "decoding"))],
        "step": read_saved_metrics(RunFolder(run.folder))[0],
        "scores": scores,
        **interval_entries(collected),
        "signatures": run.evaluation_task(**options).signatures(),
        "parameters": run.parameters,
        "seconds": round(time.perf_counter() - started_at, 1),
    }
    if not changes and not is_read_only(run.folder):
        _store(run.folder, report)
    return report


def interval_entries(collected: Collected) -> dict[str, Any]:
    """Return the entries of a report about examples: their number, and the bootstrap interval of each metric."""
    from regard.training.confidence_intervals import intervals

    table = {name: interval.to_dict() for name, interval in intervals(collected).items()}
    counts = {statistics.num_examples for statistics in collected.values()}
    return {"examples": max(counts), "intervals": table} if table else {}


def _store(folder: Path, report: dict[str, Any]) -> None:
    """Write the report to the run folder; if that fails, print a warning and continue."""
    from regard.training import stored_evaluations

    try:
        stored_evaluations.store(folder, report)
    except FileError as error:
        print(f"regard: the metrics were not stored in the run folder: {error}", file=sys.stderr)
