"""Predictions of a tagger."""

from regard.data.text.tagged_files import Sentence
from regard.tasks.tagging.prediction import TaggingResult, to_prediction


def test_entities_are_marked_in_the_text():
    sentence = Sentence("아름이는\n파리에", ((0, 2), (2, 4), (5, 7), (7, 8)), ("B-person", "O", "B-place", "O"), "")
    prediction = to_prediction(TaggingResult(sentence, -0.5))
    assert prediction.text == "<아름:person>이는 <파리:place>에"
    assert prediction.value == [(0, 2, "person"), (5, 7, "place")]
    assert prediction.data["entities"][1] == {"text": "파리", "type": "place", "start": 5, "end": 7}
    certain = to_prediction(TaggingResult(sentence, -0.5, (0.9, 0.8, 0.7, 0.6))).data["entities"]
    assert [entity["confidence"] for entity in certain] == [0.9, 0.7]
    assert prediction.render(".conll").decode().splitlines() == ["아름\tB-person", "이는\tO", "파리\tB-place", "에\tO"]
