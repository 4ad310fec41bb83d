"""`regard compare`: predict the same input with several runs and compare their metrics, as a table and as one page."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.commands import evaluate
from regard.cli.completion import complete_compare
from regard.cli.output_files import check_targets
from regard.cli.predict_command import PredictCommand, target_with_settings
from regard.cli.settings import INSIDE, Force, Json, Trust, settings_of
from regard.core.errors import RegardError
from regard.core.pretrained_runs import locate_run
from regard.core.strict_json import to_strict_json

if TYPE_CHECKING:
    from rich.console import Console

    from regard.api.run import Run
    from regard.inspection.json_format import Inspection

PANEL = INSIDE
Command = PredictCommand
Facts = dict[str, Any]  # column -> value, for one run


def run(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN RUN… INPUT|KEY=VALUE",
            help="Two or more runs, then a text or a file.",
            autocompletion=complete_compare,
        ),
    ],
    html: Annotated[Path | None, typer.Option(help="Write one page with the maps side by side.")] = None,
    *,
    split: Annotated[str | None, typer.Option(help="Also evaluate the runs on this split: valid, test.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="CSV instead of text, one line a run.")] = False,
    as_json: Json = False,
    force: Force = False,
    trust: Trust = False,
) -> None:
    """Compare runs on one input: outputs, metrics, speed, size, attention maps."""
    folders, raw_input = _split_arguments(words, is_evaluated=split is not None)
    check_targets((html,), force=force)
    from rich.console import Console

    from regard.api.run import load
    from regard.inspection import compare

    settings = settings_of(context)
    searches = [setting for setting in settings if setting.startswith("decoding")]  # for the metrics too
    runs = [load(folder, searches if split else (), trust=trust) for folder in folders]
    _check_same_task(runs)
    _check_split(runs, split)
    names = compare.unique_names(folders)
    facts: list[Facts] = [{"run": name} for name in names]
    inspections: list[Inspection] = []
    if raw_input is not None:
        from regard.inspection.collect import inspect

        targets = [target_with_settings(run, settings, name=name) for run, name in zip(runs, names, strict=True)]
        inspections = [inspect(target, raw_input) for target in targets]
        rows = compare.table(inspections)
        facts = [dict(zip(compare.COLUMNS, row, strict=True)) for row in rows]
    for row, run in zip(facts, runs, strict=True):
        row.update(model=run.recipe.model.name, parameters=run.parameters)
    if split:
        _add_scores(facts, runs, split)
    if as_json:
        print(to_strict_json(facts))
    elif as_csv:
        print(to_csv(facts), end="")
    else:
        print_comparison(facts, Console(highlight=False, markup=False))
        for inspection in inspections:
            if not inspection.maps:
                print(f"{inspection.facts['run']}: no attention map; {inspection.model} has no attention")
    if html is not None:
        _write(html, inspections, quiet=as_json or as_csv)


def _search(run: Run) -> Facts:
    """Return the decoding settings with which a run is evaluated; empty if its task does not decode."""
    table = run.recipe.to_dict().get("decoding", {})
    settings = [f"{name}={value}" for name, value in table.items() if name != "name" and value not in (None, [], ())]
    return {"decoding": " ".join([table["name"], *settings])} if table else {}


def _split_arguments(words: Sequence[str], *, is_evaluated: bool) -> tuple[list[Path], str | None]:
    """Return the runs and the input; the input is optional if the runs are evaluated."""
    words = [str(locate_run(word)) for word in words]
    missing = next((word for word in words[:2] if not (Path(word) / "config.json").exists()), None)
    if missing is not None and (is_evaluated or len(words) > 2):
        raise RegardError(f"{missing}: no such run folder")
    if is_evaluated and len(words) >= 2 and all((Path(word) / "config.json").exists() for word in words):
        return [Path(word) for word in words], None
    if len(words) < 3:
        raise RegardError(
            'compare needs two runs and an input: regard compare RUN RUN "a sentence"; or to compare metrics: '
            "regard compare RUN RUN --split test"
        )
    *folders, raw_input = words
    if (Path(raw_input) / "config.json").exists():
        raise RegardError(
            f'{raw_input} is a run folder; the input comes last: regard compare RUN RUN "a sentence"; '
            "to compare only metrics: --split test"
        )
    return [Path(folder) for folder in folders], raw_input


def _check_same_task(runs: Sequence[Run]) -> None:
    """Raise an error for runs of different tasks, whose metrics and outputs have nothing in common."""
    tasks = {run.recipe.task.name: run.folder for run in reversed(runs)}
    if len(tasks) > 1:
        names = " and ".join(f"{folder} ({task})" for task, folder in list(tasks.items())[::-1][:2])
        raise RegardError(f"{names} are runs of different tasks; compare runs of one task")


def _add_scores(facts: Sequence[Facts], runs: Sequence[Run], split: str) -> None:
    """Add the metrics of each run with their intervals, and the p-value of its difference from the first run."""
    from regard.core.example_statistics import collect_statistics
    from regard.training import confidence_intervals

    statistics = []
    for row, run in zip(facts, runs, strict=True):
        with collect_statistics() as collected:
            row.update({"split": split, **_search(run), "scores": run.evaluate(split)})
        row.update(evaluate.interval_entries(collected))
        statistics.append(collected.get(run.task.target_metric.metric))
    first, metric = statistics[0], runs[0].task.target_metric.metric
    checksum = _checksum(runs[0], split)
    for row, run, second in zip(facts[1:], runs[1:], statistics[1:], strict=True):
        has_same_data = checksum is not None and checksum == _checksum(run, split)
        if has_same_data and first and second and first.rows.shape == second.rows.shape:
            p_value = confidence_intervals.paired_p_value(first, second)
            row["p_value"] = {"metric": metric, "against": facts[0]["run"], "p": p_value}


def _checksum(run: Run, split: str) -> str | None:
    """Return the checksum of a split of the run's data; None if it is unknown."""
    from regard.training.run_folder import RunFolder, read_identity

    return (read_identity(RunFolder(run.folder)).fingerprint or {}).get(split)


def _check_split(runs: Sequence[Run], split: str | None) -> None:
    """Raise an error for a split that a run does not have, before anything is computed."""
    for run in runs if split else ():
        evaluate.select_split(run, split)


def _write(html: Path, inspections: Sequence[Inspection], *, quiet: bool) -> None:
    from regard.core.files import write_text
    from regard.inspection import compare
    from regard.inspection.html_bundle import bundle

    if not inspections:
        raise RegardError(f"--html {html} needs an input; give one after the runs")
    write_text(html, bundle(compare.to_page(inspections)))
    if not quiet:
        print(f"wrote {html}")


def print_comparison(facts: Sequence[Facts], console: Console) -> None:
    """Print figures as a table with one row per run, lines of any length unwrapped, and the outputs below it."""
    from rich.text import Text

    for text in _lines(_columns(facts)):
        console.print(text, soft_wrap=True)
    for row in facts:
        if "p_value" in row:
            test = row["p_value"]
            console.print(
                f"{row['run']} against {test['against']}: p = {test['p']:.3g} for {test['metric']} "
                "(paired approximate randomization)",
                soft_wrap=True,
            )
    for row in facts:
        if row.get("output") is not None:
            console.print(f"\n{row['run']}:")
            for line in Text(str(row["output"])).wrap(console, max(20, console.width - 4)):
                console.print("    " + line.plain)


def to_csv(facts: Sequence[Facts]) -> str:
    """Return one line per run, with a header; the output of a run is a column."""
    columns = _columns(facts, with_output=True)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for cells in zip(*columns.values(), strict=True):
        writer.writerow(["" if cell is None else cell for cell in cells])
    return text.getvalue()


def _columns(facts: Sequence[Facts], *, with_output: bool = False) -> dict[str, list[Any]]:
    """Return name -> values of all runs, without columns that have no value."""
    flat = [_figures(row, with_output=with_output) for row in facts]
    names = dict.fromkeys(name for row in flat for name, value in row.items() if value is not None)
    return {name: [row.get(name) for row in flat] for name in names}


def _lines(columns: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return the columns as aligned text, a header line first; the first column is aligned to the left."""
    from rich.cells import cell_len

    texts = [[name, *map(_cell, values)] for name, values in columns.items()]
    widths = [max(map(cell_len, column)) for column in texts]
    first, *remaining = [
        [(text, " " * (width - cell_len(text))) for text in column] for column, width in zip(texts, widths, strict=True)
    ]
    padded = [
        [f"{text}{gap}" for text, gap in first],
        *([f"{gap}{text}" for text, gap in column] for column in remaining),
    ]
    return ["  ".join(cells).rstrip() for cells in zip(*padded, strict=True)]


def _figures(row: Facts, *, with_output: bool) -> Facts:
    """Return the figures of a run with flat names."""
    scores = {f"{name} on {row['split']}": round(value, 4) for name, value in row.get("scores", {}).items()}
    hidden = {"split", "scores", "intervals", "p_value", *(() if with_output else ("output",))}
    bounds = {
        f"{name} {bound}": round(interval[bound], 4)
        for name, interval in row.get("intervals", {}).items()
        for bound in ("low", "high")
    }
    test = {"p": round(row["p_value"]["p"], 4)} if "p_value" in row else {}
    figures = {name: value for name, value in row.items() if name not in hidden} | scores | test
    return figures | bounds if with_output else figures


def _cell(value: str | float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else str(value)
