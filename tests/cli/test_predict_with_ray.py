"""`--ray`: what a cluster answers is what this machine answers, line by line; every verb has it."""

from __future__ import annotations

import io
from contextlib import contextmanager

import pytest
from run_cli import call

from regard.cli import predict_command, predict_with_ray
from regard.cli.inputs import InputLine
from regard.cli.output import Result
from regard.engines import ray


@pytest.fixture
def clustered(monkeypatch):
    """A cluster in this process; gives the addresses that were asked for."""
    asked = []

    @contextmanager
    def connected(address):
        asked.append(address)
        yield None

    monkeypatch.setattr(ray, "connect", connected)
    monkeypatch.setattr(ray, "cluster_cpus", lambda _: 3)
    monkeypatch.setattr(ray, "in_order", lambda work, pieces, **_: map(work, pieces))
    return asked


def test_pieces_come_back_in_order_and_how_far_it_is_is_told(clustered, monkeypatch, capsys):
    monkeypatch.setattr(predict_with_ray, "LINES", 4)
    monkeypatch.setattr(predict_with_ray, "EVERY", -1.0)
    lines = [InputLine(number, f"가{number}", "bad" if number == 3 else "") for number in range(1, 11)]

    def work(piece):
        return [Result(line, [line.text.upper()], line.wrong, ("mended",)) for line in piece]

    found = list(predict_with_ray.predict_chunks(work, iter([*lines[:5], None, *lines[5:]]), address="a:1", workers=0))
    assert [result for piece in found for result in piece] == work(lines) and [len(piece) for piece in found] == [
        4,
        4,
        2,
    ]
    assert clustered == ["a:1"]
    assert capsys.readouterr().err.splitlines() == [
        "regard: 4 inputs answered",
        "regard: 8 inputs answered",
        "regard: 10 inputs answered",
        "regard: 10 inputs answered by ray, 3 workers",
    ]


def test_a_cluster_answers_as_this_machine_does(small, clustered, monkeypatch, capsys):
    text = "They sleep.\n\nPlease buy two apples.\n" + "word " * 300 + "\nI read.\n"
    printed = []
    for words in ([], ["--ray", "local"]):
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        call("translate", small, *words)
        printed.append(capsys.readouterr())
    assert printed[0].out == printed[1].out and clustered == ["local"]
    assert printed[0].err in printed[1].err.replace("regard: 5 inputs answered by ray, 3 workers\n", "")
    with pytest.raises(SystemExit):
        call("translate", small, "They sleep.", "--ray", "local", "--out", "a.txt")
    assert (
        "--ray prints answers; --out is for answers of this machine: leave one of them out" in capsys.readouterr().err
    )


@pytest.mark.parametrize("verb", predict_command.COMMANDS)
def test_every_verb_takes_it(verb, capsys):
    call(verb, "--help")
    assert "--ray" in capsys.readouterr().out
