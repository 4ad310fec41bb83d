"""Settings of our decoders for CTranslate2, and which of its results are settled."""

import math
from types import SimpleNamespace

from regard.core.data_specs import SpecialTokens
from regard.core.protocols import Hypothesis
from regard.engines.ctranslate2 import search

GREEDY = {"name": "greedy", "min_length": 0, "no_repeat": 0, "forbid": []}


class Fake:
    num_translators, scores = 2, [-2.0]

    def __init__(self, *rows):
        self.rows = rows

    def translate_batch(self, rows, **settings):
        self.given, self.settings = rows, settings
        return [
            SimpleNamespace(result=lambda row=row: SimpleNamespace(hypotheses=[row], scores=self.scores))
            for row in self.rows
        ]


def test_rows_that_end_within_their_limit_are_settled():
    fake = Fake(["7", "8", "3"], ["7", "8", "9", "3"], ["7", "8"], ["2", "3"], ["3"])
    limits = [2, 2, 2, 2, 2]
    wait = search.submit(
        fake, [[5, 3]] * 5, limits, decoding={**GREEDY, "length_penalty": 1.0}, special_tokens=SpecialTokens()
    )
    assert fake.given == [["5", "3"]] * 5 and fake.settings["max_decoding_length"] == 3
    first, long, unended, with_mark, empty = wait()
    assert first == [Hypothesis((7, 8), -6.0, -2.0)]
    assert (long, unended, with_mark) == (None, None, None)
    assert empty == [Hypothesis((), -2.0, -2.0)]


def test_scores_may_be_left_out():
    fake = Fake(["7", "3"])
    fake.scores = []
    ((best,),) = search.submit(
        fake, [[5, 3]], [9], decoding=GREEDY, special_tokens=SpecialTokens(), return_scores=False
    )()
    assert fake.settings["return_scores"] is False and best.tokens == (7,) and math.isnan(best.score)


def test_greedy_search_without_scores_is_cut_at_its_limit():
    fake = Fake(["7", "8", "9", "3"], ["7", "8", "3"], ["7"], ["7", "2", "9"])
    fake.scores = []
    wait = search.submit(
        fake, [[5, 3]] * 4, [2] * 4, decoding=GREEDY, special_tokens=SpecialTokens(), return_scores=False
    )
    cut, ended, unended, with_mark = wait()
    assert cut[0].tokens == ended[0].tokens == (7, 8)
    assert unended is None and with_mark is None


def test_a_few_rows_are_shared_among_the_workers():
    for count, width, size in ((1, 1, 1), (5, 1, 3), (64, 1, 32), (1000, 1, 192), (1000, 4, 48), (1000, 500, 1)):
        fake = Fake()
        search.submit(
            fake, [[5, 3]] * count, [9] * count, decoding={**GREEDY, "width": width}, special_tokens=SpecialTokens()
        )
        assert fake.settings["max_batch_size"] == size


def test_nothing_is_searched_for_without_rows():
    assert search.submit(None, [], [], decoding=GREEDY, special_tokens=SpecialTokens())() == []


def test_a_beam_is_waited_for_longer_than_by_default():
    beam = {**GREEDY, "width": 4, "length_penalty": 0.5}
    found = search.ct2_options(beam, suppressed_tokens=[1])
    assert (found["beam_size"], found["patience"], found["length_penalty"]) == (4, 2.0, 0.5)
    assert found["suppress_sequences"] == [["1"]]
    assert search.ct2_options(GREEDY, suppressed_tokens=())["patience"] == 1.0
