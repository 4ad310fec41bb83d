"""Every verb is a method with words of its own; a run of another task says in one line which verb it has."""

import inspect
from pathlib import Path
from types import SimpleNamespace

import pytest

from regard.api.verbs import Verbs
from regard.core.errors import ConfigError
from regard.core.task import Prediction

NAMES = [name for name in vars(Verbs) if not name.startswith("_") and name not in ("predict", "verb")]


class Echo(Verbs):
    """Answers every input with itself, twice."""

    folder = Path("runs/x")
    recipe = SimpleNamespace(task=SimpleNamespace(name="echoing"))

    def __init__(self, verb):
        self.verb, self.verbs = verb, (verb,)

    def predict(self, inputs, **options):
        return [[Prediction(f"{given}!"), Prediction(f"{given}?")] for given in inputs]


def ask(run, verb):
    return getattr(run, verb)() if verb == "generate" else getattr(run, verb)(["a", "b"])


def test_verbs_that_people_would_guess_are_there():
    guessed = "translate caption classify tag fill generate complete upscale detect recommend"
    assert set(guessed.split()) <= set(NAMES)


@pytest.mark.parametrize("verb", NAMES)
def test_a_verb_is_answer_under_its_name(verb):
    answers = ask(Echo(verb), verb)
    first = answers[0][0] if isinstance(answers[0], list) else answers[0]
    assert getattr(first, "text", first) == ("!" if verb == "generate" else "a!")
    assert len(answers) == 2


@pytest.mark.parametrize("verb", NAMES)
def test_verbs_are_typed_and_documented(verb):
    method = getattr(Verbs, verb)
    assert method.__doc__ and "return" in inspect.get_annotations(method)


@pytest.mark.parametrize("verb", NAMES)
def test_another_verb_is_named_in_one_line(verb):
    with pytest.raises(ConfigError, match=r"^runs/x was trained for echoing, whose verb is sing; run\.predict\(…\)$"):
        ask(Echo("sing"), verb)
    other = NAMES[NAMES.index(verb) - 1]
    with pytest.raises(ConfigError, match=rf"^runs/x was trained for echoing, whose verb is {verb}; run\.{verb}\(…\)$"):
        ask(Echo(verb), other)


def test_generate_goes_on_from_one_beginning():
    with pytest.raises(ConfigError, match=r"^generate takes one prompt; write generate\(text\), or predict\("):
        Echo("generate").generate(["a", "b"])
