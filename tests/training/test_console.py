"""Console output: plain lines without control codes, a progress bar on a terminal."""

from __future__ import annotations

import io

from rich.console import Console as RichConsole

from regard.training import console
from regard.training.console import (
    LineConsole,
    ProgressBarConsole,
    SilentConsole,
    format_duration,
    format_row,
    open_console,
)

ROW = {"step": 50, "epoch": 1, "loss": 2.34567, "tokens/s": 4521}
SCORES = {"step": 50, "valid": {"bleu": 31.23456}, "best": True, "end": None}


def test_a_row_in_words():
    assert format_row(ROW, 83) == "step 50  epoch 1  loss 2.346  tokens/s 4521  left 1:23"
    assert format_row(SCORES, None) == "step 50  valid: bleu 31.23  best"


def test_times_as_a_clock_shows_them():
    assert [format_duration(seconds) for seconds in (0, 59.6, 83, 3723)] == ["0:00", "1:00", "1:23", "1:02:03"]


def test_lines_have_no_control_codes():
    stream = io.StringIO()
    lines = LineConsole(stream)
    lines.print_line("begin")
    lines.show_row(ROW, remaining_s=1)
    lines.set_progress(0.5)
    lines.close()
    assert stream.getvalue() == "begin\nstep 50  epoch 1  loss 2.346  tokens/s 4521  left 0:01\n"


def test_a_bar_on_a_terminal():
    stream = io.StringIO()
    bar = ProgressBarConsole(RichConsole(file=stream, force_terminal=True, width=100))
    bar.show_row(ROW, remaining_s=5)
    bar.set_progress(0.5)
    bar.show_row(SCORES, remaining_s=None)
    bar.print_line("[not markup]")
    bar.close()
    shown = stream.getvalue()
    assert "\x1b" in shown and "50%" in shown and "[not markup]" in shown and "bleu 31.23" in shown


def test_silence():
    silent = SilentConsole()
    silent.print_line("x")
    silent.show_row(ROW, remaining_s=None)
    silent.set_progress(1)
    silent.close()


def test_where_it_speaks_is_chosen_by_the_terminal(monkeypatch):
    assert isinstance(open_console(), LineConsole)
    monkeypatch.setattr(console, "RichConsole", lambda stderr: RichConsole(file=io.StringIO(), force_terminal=True))
    chosen = open_console()
    chosen.close()
    assert isinstance(chosen, ProgressBarConsole)
