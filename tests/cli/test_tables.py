"""Tables in the terminal: every metric is in exactly one table; attention maps have labels and percentages."""

from __future__ import annotations

import numpy as np
from rich.console import Console

from regard.cli.tables import MAX_MAP_SIDE, attention_table, tables


def render(*renderables):
    """Return the text that a terminal would show."""
    console = Console(width=200, record=True, markup=False, quiet=False)
    with console.capture() as capture:
        for renderable in renderables:
            console.print(renderable)
    return capture.get()


def render_scores(scores, signatures=None):
    return render(*tables(scores, signatures or {}, title="run on test"))


def test_single_metrics_have_their_signatures():
    text = render_scores({"accuracy": 0.93512, "loss": 0.2}, {"accuracy": "share of correct ones"})
    assert "0.9351" in text and "share of correct ones" in text and "per class" not in text


def test_metrics_per_class_are_a_table():
    text = render_scores({"f1": 0.5, "f1.person": 0.25, "support.person": 4.0, "f1.place": 0.75})
    row = next(line for line in text.splitlines() if "person" in line)
    assert row.split("│")[1:4] == [" person ", " 0.25 ", "       4 "]
    assert "f1.person" not in text and " place " in text


def test_confusions_are_a_matrix():
    cells = {f"confusion.{a}.{b}": value for (a, b), value in zip(["nn", "np", "pn", "pp"], [9, 1, 2, 8], strict=True)}
    lines = render_scores({"accuracy": 0.85} | cells).splitlines()
    rows = [[cell.strip() for cell in line.split("│")[1:4]] for line in lines]
    assert ["n", "9", "1"] in rows and ["p", "2", "8"] in rows


def test_names_of_classes_may_have_dots():
    """Labels such as 0.0 and 1.0 are what pandas writes for numbers in a column with gaps."""
    labels = ("0.0", "1.0", "e.g.")
    scores = {f"{score}.{label}": 0.5 for score in ("f1", "support") for label in labels}
    scores |= {f"confusion.{a}.{b}": 7.0 for a in labels for b in labels}
    lines = render_scores({"accuracy": 0.85} | scores).splitlines()
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines]
    assert all([label, "0.5", "0.5"] in rows and [label, "7", "7", "7"] in rows for label in labels)
    assert not any("f1.0" in line or "confusion." in line for line in lines)


def test_metrics_of_baselines_are_a_table_with_a_row_for_each():
    lines = render_scores({"nb_svm.accuracy": 0.5, "nb_svm.loss": 0.25, "memory.accuracy": 0.75}).splitlines()
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines]
    assert ["nb_svm", "0.5", "0.25"] in rows and ["memory", "0.75", ""] in rows
    assert "run on test" in lines[0] and not any("per class" in line or "score" in line for line in lines)


def test_an_incomplete_matrix_is_a_list():
    assert "confusion.a.b" in render_scores({"confusion.a.b": 1.0, "confusion.a.c": 2.0})


def test_a_table_with_other_columns_than_rows():
    cells = {"reliability.80%.accuracy": 0.75, "reliability.80%.count": 4, "reliability.90%.accuracy": 0.9}
    text = render_scores({**cells, "reliability.90%.count": 7})
    assert "reliability" in text and "reliability.80%" not in text and "predicted" not in text


def test_weights_of_a_map_are_percentages():
    text = render(attention_table(["책", "집"], ["the", "book"], np.array([[0.25, 0.75], [1.0, 0.001]])))
    first, second = text.splitlines()[1:]
    assert "25" in first and "75" in first and first.lstrip().startswith("책")
    assert "100" in second and "·" in second


def test_a_large_map_is_cut():
    labels = [f"w{index}" for index in range(100)]
    text = render(attention_table(labels, labels, np.zeros((100, 100))))
    assert f"w{MAX_MAP_SIDE - 1}" in text and f"w{MAX_MAP_SIDE}" not in text
    assert len(text.splitlines()) == MAX_MAP_SIDE + 1
