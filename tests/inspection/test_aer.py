"""The alignment error rate: a model that looks at the truth has none, one that looks anywhere has much."""

import pytest
import torch

from regard.core.sizes import Text
from regard.inspection.aer import alignment_errors
from regard.models import bahdanau, seq2seq
from regard.tasks import translation


@pytest.fixture(scope="module")
def task():
    return translation.build(translation.Config(pairs=200, level="word"))


def build(task, module):
    torch.manual_seed(0)
    return module.build(module.TINY, task.sizes).eval()


def test_an_untrained_model_errs_and_the_rate_is_a_share(task):
    rates = alignment_errors(task, build(task, bahdanau), count=20)
    assert list(rates) == ["cross_attn"]
    assert 0.5 < rates["cross_attn"] <= 1


def test_a_model_that_looks_at_the_truth_has_no_error(task, monkeypatch):
    model, truth = build(task, bahdanau), task.true_links("test")
    pairs = iter(zip(task.split("test"), truth, strict=True))
    from regard.inspection import aer

    def told(task, model, source, target):
        (pair, true) = next(pairs)
        assert pair == (source, target)
        alone = {t: min(s for s, other in true if other == t) for _, t in true}
        return {"cross_attn": frozenset((s, t) for t, s in alone.items())}

    monkeypatch.setattr(aer, "_one", told)
    assert alignment_errors(task, model, count=20) == {"cross_attn": 0.0}


def test_without_attention_or_truth_there_is_no_rate(task):
    assert alignment_errors(task, build(task, seq2seq), count=5) == {}
    sizes = Text(source=9, target=9, longest=9)

    class Elsewhere:
        def true_links(self, split):
            return None

    assert alignment_errors(Elsewhere(), bahdanau.build(bahdanau.TINY, sizes)) == {}
