"""The command line as a user meets it: quick help, one-line errors, exit codes."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest
from typer.main import get_command

from regard.cli import main
from regard.core.errors import ConfigError
from regard.core.version import __version__

VERBS = sorted(get_command(main.app).commands)


def regard(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "120"}
    command = [sys.executable, "-m", "regard", *arguments]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=environment, check=False)


def test_help_is_quick():
    """At most half a second of the processor's time, which tests running beside this one do not change."""
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert regard("--help").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(times) < 0.5


def test_help_does_not_import_torch():
    code = (
        "import sys; sys.argv = ['regard', '--help']; from regard.cli.main import main\n"
        "try: main()\n"
        "finally: print(sorted({'torch', 'numpy', 'tokenizers', 'sacrebleu'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(verb, capsys):
    with pytest.raises(SystemExit) as stop:
        main.app([verb, "--help"], prog_name="regard")
    assert stop.value.code == 0
    assert f"regard {verb}" in capsys.readouterr().out


def test_version():
    done = regard("--version")
    assert (done.returncode, done.stdout) == (0, f"regard {__version__}\n")


@pytest.mark.parametrize("arguments", [["demoo"], ["demo", "--nonsense"], ["--nonsense"]])
def test_usage_error_is_code_2_without_a_traceback(arguments):
    done = regard(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr and arguments[-1] in done.stderr


def test_an_error_of_the_user_is_one_line(monkeypatch, capsys):
    def fail(**settings: object) -> None:
        raise ConfigError("model.dim: expected int,\n got 'wide'")

    monkeypatch.setattr(main, "app", fail)
    with pytest.raises(SystemExit) as stop:
        main.main()
    captured = capsys.readouterr()
    assert stop.value.code == 1
    assert (captured.out, captured.err) == ("", "regard: model.dim: expected int, got 'wide'\n")


def test_a_mistake_of_ours_is_not_hidden(monkeypatch):
    def fail(**settings: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(main, "app", fail)
    with pytest.raises(ZeroDivisionError):
        main.main()


def test_waiting_threads_let_others_work(monkeypatch):
    """Set before torch is imported, unless the user has set it."""
    monkeypatch.setattr("sys.argv", ["regard", "--version"])
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    with pytest.raises(SystemExit):
        main.main()
    assert os.environ.pop("GOMP_SPINCOUNT") == "5000"
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    with pytest.raises(SystemExit):
        main.main()
    assert os.environ["GOMP_SPINCOUNT"] == "7"
