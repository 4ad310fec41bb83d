import pytest

from regard.core.errors import MissingExtra
from regard.data.text.tagged_files import Sentence
from regard.tasks.tagging import inspect
from regard.tasks.tagging.inspect import TaggingResult

pytest.importorskip("seqeval")
TRUE = [["B-a", "I-a", "O"], ["B-b", "B-b"], ["O"]]


def test_scores_are_strict():
    assert inspect.compute_metrics(TRUE, TRUE)["f1"] == 1
    short = [["B-a", "O", "O"], ["B-b", "I-b"], ["O"]]
    found = inspect.compute_metrics(TRUE, short)
    assert found["f1"] == found["precision"] == 0 and found["accuracy"] == 4 / 6
    half = [["B-a", "I-a", "O"], ["O", "O"], ["O"]]
    found = inspect.compute_metrics(TRUE, half)
    assert (found["precision"], found["recall"], found["f1"], found["f1_macro"]) == (1, 1 / 3, 0.5, 0.5)


def test_nothing_found_is_zero_without_a_warning():
    assert inspect.compute_metrics(TRUE, [["O"] * len(tags) for tags in TRUE])["f1"] == 0
    assert inspect.compute_metrics([["O"]], [["O"]])["f1"] == 0


def test_a_table_for_each_type():
    table = inspect.metrics_by_type(TRUE, [["B-a", "I-a", "O"], ["O", "O"], ["O"]])
    assert table["f1.a"] == 1 and table["recall.b"] == 0 and table["support.b"] == 2


def test_the_scheme_is_named():
    assert "IOB2" in inspect.SIGNATURES["f1"] and "strict" in inspect.SIGNATURES["f1"]


def test_without_seqeval_one_line_says_what_to_install(monkeypatch):
    def missing(name, *, extra):
        raise MissingExtra(f"{name} is not installed; run: pip install 'regard[{extra}]'")

    monkeypatch.setattr(inspect, "require", missing)
    with pytest.raises(MissingExtra, match=r"pip install 'regard\[text\]'"):
        inspect.compute_metrics(TRUE, TRUE)


def test_an_answer_marks_its_entities():
    sentence = Sentence("아름이는\n파리에", ((0, 2), (2, 4), (5, 7), (7, 8)), ("B-person", "O", "B-place", "O"), "")
    answer = inspect.to_prediction(TaggingResult(sentence, -0.5))
    assert answer.text == "<아름:person>이는 <파리:place>에"
    assert answer.value == [(0, 2, "person"), (5, 7, "place")]
    assert answer.render(".conll").decode().splitlines() == ["아름\tB-person", "이는\tO", "파리\tB-place", "에\tO"]
