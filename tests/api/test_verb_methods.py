"""Every verb is a method; a run of another task raises a one-line error that names its verb."""

import inspect
from pathlib import Path
from types import SimpleNamespace

import pytest

from regard.api.verb_methods import Verbs
from regard.core.errors import ConfigError
from regard.core.task import Prediction

NAMES = [name for name in vars(Verbs) if not name.startswith("_") and name not in ("predict", "verb", "verb_options")]


class Echo(Verbs):
    """A run that returns every input twice."""

    folder = Path("runs/x")
    recipe = SimpleNamespace(task=SimpleNamespace(name="echoing"))

    def __init__(self, verb):
        self.verb, self.verbs = verb, (verb,)

    def predict(self, inputs, **options):
        return [[Prediction(f"{text}!", data={"vector": [1]}), Prediction(f"{text}?")] for text in inputs]


def call_verb(run, verb):
    return getattr(run, verb)() if verb == "generate" else getattr(run, verb)(["a", "b"])


def test_common_verbs_exist():
    common = "translate caption classify tag fill generate complete upscale detect recommend"
    assert set(common.split()) <= set(NAMES)


@pytest.mark.parametrize("verb", NAMES)
def test_a_verb_is_predict_under_another_name(verb):
    predictions = call_verb(Echo(verb), verb)
    if verb == "embed":  # a matrix with one row per text
        assert predictions.tolist() == [[1.0], [1.0]]
        return
    first = predictions[0][0] if isinstance(predictions[0], list) else predictions[0]
    assert getattr(first, "text", first) == ("!" if verb == "generate" else "a!")
    assert len(predictions) == 2


@pytest.mark.parametrize("verb", NAMES)
def test_verbs_are_typed_and_documented(verb):
    method = getattr(Verbs, verb)
    assert method.__doc__ and "return" in inspect.get_annotations(method)


@pytest.mark.parametrize("verb", NAMES)
def test_the_error_names_the_verb_of_the_run(verb):
    with pytest.raises(ConfigError, match=r"^runs/x was trained for echoing, whose verb is sing; run\.predict\(…\)$"):
        call_verb(Echo("sing"), verb)
    previous = NAMES[NAMES.index(verb) - 1]
    with pytest.raises(ConfigError, match=rf"^runs/x was trained for echoing, whose verb is {verb}; run\.{verb}\(…\)$"):
        call_verb(Echo(verb), previous)


def test_generate_takes_one_prompt():
    with pytest.raises(ConfigError, match=r"^generate takes one prompt; write generate\(text\), or predict\("):
        Echo("generate").generate(["a", "b"])


@pytest.mark.parametrize("verb", ["translate", "caption"])
def test_n_texts_of_each_input_are_lists(verb):
    method = getattr(Echo(verb), verb)
    assert method(["a", "b"]) == ["a!", "b!"]
    assert method(["a", "b"], n=2) == [["a!", "a?"], ["b!", "b?"]]


def test_n_classes_of_each_input_are_lists():
    assert [[item.text for item in row] for row in Echo("classify").classify(["a"], n=2)] == [["a!", "a?"]]


def test_one_user_is_described_by_options():
    run = Echo("recommend")
    assert [item.text for item in run.recommend(user="u42")] == ["!", "?"]
    assert [[item.text for item in row] for row in run.recommend(["u42"])] == [["u42!", "u42?"]]
    with pytest.raises(ConfigError, match=r"^recommend needs a user: recommend\(\[user\]\), recommend\(user=…\) or"):
        run.recommend(n=3)


def test_a_verb_sets_options_that_the_caller_may_override():
    class Recorded(Echo):
        def verb_options(self, verb):
            return {"mode": verb, "n": 1}

        def predict(self, inputs, **options):
            return [[Prediction(str(sorted(options.items())))] for _ in inputs]

    assert Recorded("score").score(["a"], n=2)[0].text == "[('mode', 'score'), ('n', 2)]"
