"""`--ray`: a cluster predicts the same lines as this machine; every verb has the option."""

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
def addresses(monkeypatch):
    """A cluster in this process -> the addresses that were connected to."""
    connected_to = []

    @contextmanager
    def connect(address):
        connected_to.append(address)
        yield None

    monkeypatch.setattr(ray, "connect", connect)
    monkeypatch.setattr(ray, "cluster_cpus", lambda _: 3)
    monkeypatch.setattr(ray, "map_in_order", lambda work, chunks, **_: map(work, chunks))
    return connected_to


def test_results_come_in_order_with_the_progress_on_standard_error(addresses, monkeypatch, capsys):
    monkeypatch.setattr(predict_with_ray, "LINES_PER_CHUNK", 4)
    monkeypatch.setattr(predict_with_ray, "PROGRESS_INTERVAL_S", -1.0)
    lines = [InputLine(index, f"가{index}", "bad" if index == 3 else "") for index in range(1, 11)]

    def work(chunk):
        return [Result(line, [line.text.upper()], line.error, ("adjusted",)) for line in chunk]

    stream = iter([*lines[:5], None, *lines[5:]])
    chunks = list(predict_with_ray.predict_chunks(work, stream, address="a:1", workers=0))
    assert [result for chunk in chunks for result in chunk] == work(lines)
    assert [len(chunk) for chunk in chunks] == [4, 4, 2]
    assert addresses == ["a:1"]
    assert capsys.readouterr().err.splitlines() == [
        "regard: 4 inputs processed",
        "regard: 8 inputs processed",
        "regard: 10 inputs processed",
        "regard: 10 inputs processed by ray, 3 workers",
    ]


def test_a_cluster_predicts_as_this_machine_does(small, addresses, monkeypatch, capsys):
    text = "They sleep.\n\nPlease buy two apples.\n" + "word " * 300 + "\nI read.\n"
    printed = []
    for args in ([], ["--ray"]):
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        with pytest.raises(SystemExit) as stop:
            call("translate", small, *args)
        assert stop.value.code == 3  # one input is too long
        printed.append(capsys.readouterr())
    assert printed[0].out == printed[1].out and addresses == ["local"]
    assert printed[0].err == printed[1].err.replace("regard: 5 inputs processed by ray, 3 workers\n", "")
    with pytest.raises(SystemExit):
        call("translate", small, "They sleep.", "--ray", "local", "--out", "a.txt")
    message = "--ray and --out cannot be combined: --ray prints predictions; leave one of them out"
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("verb", predict_command.COMMANDS)
def test_every_verb_has_the_option(verb, capsys):
    call(verb, "--help")
    assert "--ray" in capsys.readouterr().out
