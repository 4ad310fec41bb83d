"""Scores as tables: every score stands in exactly one of them."""

from __future__ import annotations

from rich.console import Console

from regard.cli.tables import tables


def printed(scores, signatures=None):
    console = Console(width=100, record=True, markup=False)
    for table in tables(scores, signatures or {}, title="run on test"):
        console.print(table)
    return console.export_text()


def test_single_scores_stand_with_how_they_were_computed():
    text = printed({"accuracy": 0.93512, "loss": 0.2}, {"accuracy": "share of right ones"})
    assert "0.9351" in text and "share of right ones" in text and "kind" not in text


def test_scores_of_kinds_are_a_table():
    text = printed({"f1": 0.5, "f1.person": 0.25, "support.person": 4.0, "f1.place": 0.75})
    row = next(line for line in text.splitlines() if "person" in line)
    assert row.split("│")[1:4] == [" person ", " 0.25 ", "       4 "]
    assert "f1.person" not in text and " place " in text


def test_confusions_are_a_matrix():
    cells = {f"confusion.{a}.{b}": value for (a, b), value in zip(["nn", "np", "pn", "pp"], [9, 1, 2, 8], strict=True)}
    lines = printed({"accuracy": 0.85} | cells).splitlines()
    assert any(line.split("│")[1:4] == [" n         ", " 9 ", " 1 "] for line in lines)
    assert any(line.split("│")[1:4] == [" p         ", " 2 ", " 8 "] for line in lines)


def test_a_matrix_with_holes_stays_a_list():
    assert "confusion.a.b" in printed({"confusion.a.b": 1.0, "confusion.a.c": 2.0})
