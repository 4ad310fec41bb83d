"""The command line: fast help, one-line errors, exit codes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from run_cli import call
from typer.main import get_command

from regard.cli import main
from regard.core.errors import ConfigError
from regard.core.version import __version__

LIBRARIES = {
    "torch",
    "numpy",
    "safetensors",
    "tokenizers",
    "sacrebleu",
    "fastapi",
    "PIL",
    "scipy",
    "sklearn",
    "matplotlib",
}
COMMANDS = sorted(get_command(main.build_app()).commands)


def test_help_does_not_import_libraries_or_models():
    """Help appears at once because only the command line and the registry of tasks are imported."""
    code = (
        "import sys; sys.argv = ['regard', '--help']; from regard.cli.main import main\n"
        "try: main()\n"
        "finally: print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = [name.split(".") for name in done.stdout.splitlines()[-1].split()]
    assert {"typer", "regard"} <= {parts[0] for parts in modules}
    assert not LIBRARIES & {parts[0] for parts in modules}
    assert {parts[1] for parts in modules if parts[0] == "regard" and len(parts) > 2} == {"cli", "core"}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main.build_app(command)([command, "--help"], prog_name="regard")
    assert stop.value.code == 0
    assert f"regard {command}" in capsys.readouterr().out


def test_without_arguments_five_lines_name_what_to_try(capsys):
    call()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5 and all(line.startswith("regard ") for line in lines)
    assert {line.split()[1] for line in lines} - {"--help"} < set(COMMANDS)


def test_version():
    done = subprocess.run([sys.executable, "-m", "regard", "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"regard {__version__}\n")


@pytest.mark.parametrize("args", [["demoo"], ["demo", "--nonsense"], ["--nonsense"], ["translate"]])
def test_a_usage_error_has_exit_code_2_and_no_traceback(args, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit) as stop:
        call(*args)
    printed = capsys.readouterr().err
    assert stop.value.code == 2
    assert "Traceback" not in printed and args[-1] in printed


def test_a_user_error_is_one_line(monkeypatch, capsys):
    def fail(**settings: object) -> None:
        raise ConfigError("model.dim: expected int,\n got 'wide'")

    monkeypatch.setattr(main, "build_app", lambda command: fail)
    with pytest.raises(SystemExit) as stop:
        main.main()
    captured = capsys.readouterr()
    assert stop.value.code == 1
    assert (captured.out, captured.err) == ("", "regard: model.dim: expected int, got 'wide'\n")


def test_a_bug_is_not_hidden(monkeypatch):
    def fail(**settings: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(main, "build_app", lambda command: fail)
    with pytest.raises(ZeroDivisionError):
        main.main()


def test_the_spin_count_of_openmp_is_limited(monkeypatch):
    """It is set before torch is imported, unless the user has set it."""
    monkeypatch.setattr("sys.argv", ["regard", "--version"])
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    with pytest.raises(SystemExit):
        main.main()
    assert os.environ.pop("GOMP_SPINCOUNT") == "5000"
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    with pytest.raises(SystemExit):
        main.main()
    assert os.environ["GOMP_SPINCOUNT"] == "7"


def test_a_command_does_not_import_the_others():
    code = (
        "import sys; sys.argv = ['regard', 'translate', '--help']; from regard.cli.main import main\n"
        "try: main()\n"
        "finally: print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not [name for name in done.stdout.splitlines()[-1].split() if name.startswith("regard.cli.commands.")]
    assert list(get_command(main.build_app("translate")).commands) == ["translate"]
    assert sorted(get_command(main.build_app("transalte")).commands) == COMMANDS
