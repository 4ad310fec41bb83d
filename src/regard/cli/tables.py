"""Tables in the terminal: metrics, metrics per class, confusion matrices, attention maps.

A metric `f1.person` is the f1 of the class `person`: classes are rows, metrics columns. Names of classes may have dots.
A metric `confusion.neg.pos` is a cell of a confusion matrix: the number of `neg` examples that were predicted as `pos`.
`nb_svm.accuracy` is the metric of a baseline. `reliability.90%.accuracy` is a cell of another table, with the row `90%`
and the column `accuracy`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.table import Table
    from rich.text import Text

CONFUSION = "confusion"
CLASS_SCORES = frozenset(("f1", "precision", "recall", "support", "right", "missed", "wrong"))  # of a class
Cells = dict[tuple[str, str], float]  # (row, column) -> value


def tables(
    scores: Mapping[str, float],
    signatures: Mapping[str, str],
    *,
    title: str,
    intervals: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
) -> Iterator[Table | Text]:
    """Yield all metrics in tables, and one line per metric that says how it was computed.

    `intervals` are the bootstrap intervals of some metrics, as in the report of `regard evaluate`.
    """
    from rich.table import Column, Table
    from rich.text import Text

    classes = _per_class(scores)
    baselines, matrices = _per_baseline(scores), _matrices(scores, {label for label, _ in classes})
    grouped = {f"{score}.{label}" for label, score in classes} | {".".join(key) for key in baselines}
    grouped |= {f"{name}.{row}.{column}" for name, cells in matrices.items() for row, column in cells}
    columns = [Column("95 % interval", justify="right"), Column("examples", justify="right")] if intervals else []
    single = Table("score", Column("value", justify="right"), *columns, title=title)
    for name, value in scores.items():
        if name not in grouped:
            single.add_row(name, f"{value:.4g}", *_interval_cells(intervals, name))
    if single.row_count:
        yield single
    if baselines:
        yield _table(baselines, corner="baseline", title="" if single.row_count else title)
    if classes:
        yield _table(classes, corner="class", title="per class")
    for name, cells in matrices.items():
        if _is_square(cells):
            yield _table(cells, corner="true \\ predicted", title=f"{name}: rows are true, columns predicted classes")
        else:
            yield _table(cells, corner="", title=name)
    computed = {name: text for name, text in signatures.items() if name in scores}
    if computed:
        yield Text("computed as:")
    for name, text in computed.items():
        yield Text(f"  {name}: {text}")  # one complete line each, so that it can be copied


def _interval_cells(intervals: Mapping[str, Mapping[str, float]], name: str) -> list[str]:
    """Return the cells of a metric's interval and number of examples; empty cells if it has none."""
    if not intervals:
        return []
    interval = intervals.get(name)
    if interval is None:
        return ["", ""]
    return [f"{interval['low']:.4g} – {interval['high']:.4g}", f"{interval['examples']:,}"]


def _per_class(scores: Mapping[str, float]) -> Cells:
    parts = ((name.partition("."), value) for name, value in scores.items())
    return {(label, score): value for (score, _, label), value in parts if label and score in CLASS_SCORES}


def _per_baseline(scores: Mapping[str, float]) -> Cells:
    parts = ((name.split("."), value) for name, value in scores.items())
    return {(part[0], part[1]): value for part, value in parts if len(part) == 2 and part[0] not in CLASS_SCORES}


def _matrices(scores: Mapping[str, float], classes: Collection[str]) -> dict[str, Cells]:
    """Return the matrices without a missing cell; the names of `classes` may have dots."""
    matrices: dict[str, Cells] = {}
    for name, value in scores.items():
        matrix, _, key = name.partition(".")
        if matrix not in CLASS_SCORES and (cell := _cell_of(key, classes)) is not None:
            matrices.setdefault(matrix, {})[cell] = value
    return {
        name: cells
        for name, cells in matrices.items()
        if len(cells) == _size(cells) and (_is_square(cells) or name != CONFUSION)
    }


def _cell_of(key: str, classes: Collection[str]) -> tuple[str, str] | None:
    """Return row and column of a cell: two classes, or else the parts next to the only dot."""
    for label in classes:
        if key.startswith(f"{label}.") and key[len(label) + 1 :] in classes:
            return label, key[len(label) + 1 :]
    row, _, column = key.partition(".")
    return (row, column) if column and "." not in column else None


def _size(cells: Cells) -> int:
    rows, columns = ({key[i] for key in cells} for i in (0, 1))
    return len(rows) * len(columns)


def _is_square(cells: Cells) -> bool:
    return {row for row, _ in cells} == {column for _, column in cells}


def _table(cells: Cells, *, corner: str, title: str) -> Table:
    from rich.table import Column, Table

    rows, columns = (list(dict.fromkeys(key[i] for key in cells)) for i in (0, 1))
    table = Table(corner, *(Column(name, justify="right") for name in columns), title=title)
    for row in rows:
        table.add_row(row, *(f"{cells[row, name]:.4g}" if (row, name) in cells else "" for name in columns))
    return table


SHADES = ("#f7fbff", "#deebf7", "#c6dbef", "#9ecae1", "#6baed6", "#4292c6", "#2171b5", "#084594")  # light to dark blue

MAX_MAP_SIDE = 24  # rows and columns that fit a terminal


def attention_table(rows: Sequence[str], columns: Sequence[str], weights: NDArray[Any]) -> Table:
    """Labels of queries and keys, weights (t s) -> a table with keys as columns. A large map is cut to its first rows
    and columns."""
    from rich.cells import cell_len
    from rich.table import Table

    table = Table(box=None, padding=(0, 0), header_style="", pad_edge=False)
    table.add_column("", justify="right", no_wrap=True)
    for label in columns[:MAX_MAP_SIDE]:
        table.add_column(label, justify="center", no_wrap=True, min_width=max(3, cell_len(label)) + 1)
    for label, row in zip(rows[:MAX_MAP_SIDE], weights[:MAX_MAP_SIDE, :MAX_MAP_SIDE].tolist(), strict=True):
        table.add_row(f"{label} ", *(_cell(weight) for weight in row))
    return table


def _cell(weight: float) -> Text:
    from rich.text import Text

    shade = min(len(SHADES) - 1, int(weight * len(SHADES)))
    ink = "black" if shade < len(SHADES) // 2 else "white"
    text = f"{100 * weight:.0f}" if weight >= 0.005 else "·"
    return Text(text.center(4), style=f"{ink} on {SHADES[shade]}")
