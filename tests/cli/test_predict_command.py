"""The verb of every task is a command and a method of a run; all these commands have the same options."""

from __future__ import annotations

import pytest
from run_cli import call

from regard.api.verb_methods import Verbs
from regard.cli import predict_command
from regard.core.describe import read_constant, source_path
from regard.core.registry import registered_names


@pytest.mark.parametrize("task", registered_names("regard.tasks"))
def test_the_verb_of_a_task_is_a_command_and_a_method(task, capsys):
    verb = read_constant(source_path("regard.tasks", task), "VERB")
    assert verb in predict_command.VERBS and hasattr(Verbs, verb)
    call(verb, "--help")
    printed = capsys.readouterr().out
    assert f"Options of {task}, as key=value or --key value:" in printed or f"{task} has no options." in printed


@pytest.mark.parametrize("verb", predict_command.COMMANDS)
def test_every_verb_has_the_same_options(verb, capsys):
    assert predict_command.COMMANDS[verb].__doc__
    call(verb, "--help")
    printed = capsys.readouterr().out
    assert all(option in printed for option in ("--json", "--out", "--engine", "--workers"))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("RUN hi --ray", "RUN hi --ray=local"),
        ("RUN --ray --json", "RUN --ray=local --json"),
        ("RUN --ray hi", "RUN --ray=local hi"),  # the input is not an address
        ("RUN --ray local hi", "RUN --ray local hi"),
        ("RUN --ray ray://head:10001 hi", "RUN --ray ray://head:10001 hi"),
        ("RUN --ray 10.0.0.1:6379", "RUN --ray 10.0.0.1:6379"),
        ("RUN --ray=auto hi", "RUN --ray=auto hi"),
        ("", ""),
    ],
)
def test_ray_without_an_address_is_a_cluster_of_this_machine(words, expected):
    assert predict_command.complete_ray(words.split()) == expected.split()
