"""`regard data check PATH` reports problems of a data set; `regard data get NAME` downloads one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.help import PlainCommand, PlainGroup
from regard.cli.settings import START, SettingsCommand, settings_of
from regard.core.describe import read_constant, source_path
from regard.core.errors import DataError, pluralize

if TYPE_CHECKING:
    from regard.data.checks.findings import Finding
    from regard.data.checks.report import Report

PANEL = START
DATASETS = read_constant(source_path("regard.data.files", "download"), "SETS")  # read without importing the module
LAYOUTS = re.findall(r"'(\w+)'", read_constant(source_path("regard.data.checks", "detect_layout"), "Layout"))
MAX_PRINTED_FINDINGS = 20  # per kind and file; the rest is counted
app = typer.Typer(cls=PlainGroup, help="Check data before training, and get public data sets.", no_args_is_help=True)


@app.command(cls=SettingsCommand)
def check(
    context: typer.Context,
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH|KEY=VALUE",
            help=f"A folder or file: {', '.join(LAYOUTS)}.",
        ),
    ],
    layout: Annotated[str, typer.Option(help=f"The layout: auto, {', '.join(LAYOUTS)}.")] = "auto",
) -> None:
    """Report misaligned or empty lines, duplicates across splits, outliers, unreadable files and missing partners.

    Data is read as in training; the same settings apply (data.source=ko data.target=en, data.label=…). Small data is
    also split and encoded as in training.
    """
    from regard.core import config as configs
    from regard.data.checks import report as reports

    table = configs.override({}, settings_of(context))
    settings = table.pop("data", {}) | table
    report = reports.examine(path, layout, settings)
    for line in report.lines:
        print(line)
    findings = [*report.findings, *_training_findings(path, report)]
    _print_findings(path, findings)
    levels = Counter(finding.level for finding in findings)
    errors, warnings = (pluralize(levels[level], level) for level in ("error", "warning"))
    print(f"{path}: {errors}, {warnings}")
    if levels["error"]:
        raise DataError(f"{path}: {errors}; correct the errors above before training")
    print("train on it:", report.command)


def _training_findings(path: Path, report: Report) -> list[Finding]:
    """Return the error at which training would stop, of small data without other errors."""
    from regard.data.checks.findings import Finding
    from regard.training import trial

    if any(finding.level == "error" for finding in report.findings) or not trial.is_small(path):
        return []
    error = trial.find_error(report.task, report.settings)
    text = error.removeprefix(f"{path}: ").removeprefix(f"{path.resolve()}: ")
    return [Finding("error", "training", path, 0, text)] if error else []


def _print_findings(path: Path, findings: Sequence[Finding]) -> None:
    """Print the first findings of each kind in each file, and the number of the others."""
    printed: Counter[tuple[str, str]] = Counter()
    for finding in findings:
        kind = (str(finding.file if finding.line else path), finding.kind)  # of many images, a kind for all of them
        printed[kind] += 1
        if printed[kind] <= MAX_PRINTED_FINDINGS:
            print(finding)
    for (file, kind_name), count in printed.items():
        if count > MAX_PRINTED_FINDINGS:
            print(f"{file}: … and {count - MAX_PRINTED_FINDINGS} more findings of the kind {kind_name!r}")


@app.command(cls=PlainCommand)
def get(name: Annotated[str, typer.Argument(help=f"One of: {', '.join(DATASETS)}.")]) -> None:
    """Download a public data set and verify its checksum; an interrupted download is resumed."""
    from regard.data.files import download

    print(f"{download.fetch_dataset(name)}\nterms: {download.SETS[name].terms}")
