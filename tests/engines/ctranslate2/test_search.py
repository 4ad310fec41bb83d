"""Options of CTranslate2 from decoding settings, and the results that are settled."""

import math
from types import SimpleNamespace

from regard.core.data_specs import SpecialTokens
from regard.core.protocols import Hypothesis
from regard.engines.ctranslate2 import search

GREEDY = {"name": "greedy", "min_length": 0, "no_repeat_ngram_size": 0, "suppress_tokens": []}


class FakeTranslator:
    num_translators, scores = 2, [-2.0]

    def __init__(self, *rows):
        self.rows = rows

    def translate_batch(self, rows, **settings):
        self.sources, self.settings = rows, settings
        return [
            SimpleNamespace(result=lambda row=row: SimpleNamespace(hypotheses=[row], scores=self.scores))
            for row in self.rows
        ]


def test_rows_that_end_within_their_limit_are_settled():
    translator = FakeTranslator(["7", "8", "3"], ["7", "8", "9", "3"], ["7", "8"], ["2", "3"], ["3"])
    limits = [2, 2, 2, 2, 2]
    wait = search.submit(
        translator, [[5, 3]] * 5, limits, decoding={**GREEDY, "length_penalty": 1.0}, special_tokens=SpecialTokens()
    )
    assert translator.sources == [["5", "3"]] * 5 and translator.settings["max_decoding_length"] == 3
    first, long, without_eos, with_bos, empty = wait()
    assert first == [Hypothesis((7, 8), -6.0, -2.0)]
    assert (long, without_eos, with_bos) == (None, None, None)
    assert empty == [Hypothesis((), -2.0, -2.0)]


def test_scores_are_optional():
    translator = FakeTranslator(["7", "3"])
    translator.scores = []
    ((best,),) = search.submit(
        translator, [[5, 3]], [9], decoding=GREEDY, special_tokens=SpecialTokens(), return_scores=False
    )()
    assert translator.settings["return_scores"] is False and best.tokens == (7,) and math.isnan(best.score)


def test_greedy_search_without_scores_is_cut_at_its_limit():
    translator = FakeTranslator(["7", "8", "9", "3"], ["7", "8", "3"], ["7"], ["7", "2", "9"])
    translator.scores = []
    wait = search.submit(
        translator, [[5, 3]] * 4, [2] * 4, decoding=GREEDY, special_tokens=SpecialTokens(), return_scores=False
    )
    cut, ended, without_eos, with_bos = wait()
    assert cut[0].tokens == ended[0].tokens == (7, 8)
    assert without_eos is None and with_bos is None


def test_a_few_rows_are_divided_between_the_workers():
    for count, width, size in ((1, 1, 1), (5, 1, 3), (64, 1, 32), (1000, 1, 192), (1000, 4, 48), (1000, 500, 1)):
        translator = FakeTranslator()
        search.submit(
            translator,
            [[5, 3]] * count,
            [9] * count,
            decoding={**GREEDY, "beam_width": width},
            special_tokens=SpecialTokens(),
        )
        assert translator.settings["max_batch_size"] == size


def test_no_rows_give_no_hypotheses():
    assert search.submit(None, [], [], decoding=GREEDY, special_tokens=SpecialTokens())() == []


def test_a_beam_has_more_patience_than_by_default():
    beam = {**GREEDY, "beam_width": 4, "length_penalty": 0.5}
    options = search.ct2_options(beam, suppressed_tokens=[1])
    assert (options["beam_size"], options["patience"], options["length_penalty"]) == (4, 2.0, 0.5)
    assert options["suppress_sequences"] == [["1"]]
    assert search.ct2_options(GREEDY, suppressed_tokens=())["patience"] == 1.0
