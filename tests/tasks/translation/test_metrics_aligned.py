"""The alignment error rate: a model that looks at the truth has none, one that looks anywhere has much."""

import pytest
import torch

from regard.attention.record import record
from regard.data.text import pair_sources
from regard.data.text.alignment import align_words, error_rate, word_indices
from regard.models import bahdanau, seq2seq, transformer
from regard.tasks import translation
from regard.tasks.translation import metrics


@pytest.fixture(scope="module")
def task():
    return translation.build(translation.Config(pairs=200, tokenizer="word"))


@pytest.fixture(scope="module")
def truth(task):
    return pair_sources.true_links(task.config.origin, "test")


def build(task, module):
    torch.manual_seed(0)
    return module.build(module.TINY, task.sizes).eval()


def rates(task, model, truth, count=20):
    return metrics.alignment_errors(
        model, task.split("test")[:count], truth[:count], vocabularies=task.vocabularies, special_tokens=task.marks
    )


def test_an_untrained_model_errs_and_the_rate_is_a_share(task, truth):
    found = rates(task, build(task, bahdanau), truth)
    assert list(found) == ["cross_attn"]
    assert 0.5 < found["cross_attn"] <= 1
    assert len(rates(task, build(task, transformer), truth)) == transformer.TINY.layers


def test_a_model_that_looks_at_the_truth_has_no_error(task, truth, monkeypatch):
    told = iter(truth)

    def aligned(model, pairs, vocabularies, marks):
        true = [next(told) for _ in pairs]
        alone = [{t: min(s for s, other in links if other == t) for _, t in links} for links in true]
        return {"cross_attn": [frozenset((s, t) for t, s in each.items()) for each in alone]}

    monkeypatch.setattr(metrics, "_aligned", aligned)
    assert rates(task, build(task, bahdanau), truth, count=50) == {"cross_attn": 0.0}


@torch.no_grad()
def test_many_at_once_are_one_by_one(task, truth):
    model, pairs = build(task, bahdanau), task.split("test")[:40]
    guesses = []
    for source, target in pairs:
        tokens = task.vocabularies.target.encode([target])[0]
        with record(model) as maps:
            model(torch.tensor([[task.marks.start, *tokens]]), model.start(task.encode_sources([source])))
        sides = zip(task.vocabularies, (source, target), strict=True)
        columns, rows = (word_indices(text, tokenizer.pieces(text)) for tokenizer, text in sides)
        guesses.append(align_words(maps["cross_attn"].weights[0, 0].numpy(), source=columns, target=rows))
    assert rates(task, model, truth, count=40)["cross_attn"] == pytest.approx(error_rate(guesses, truth[:40]))


def test_without_attention_or_truth_there_is_no_rate(task, truth):
    assert rates(task, build(task, seq2seq), truth) == {}
    assert task.report(build(task, seq2seq), "test", None) == {}
    assert 0 < task.report(build(task, bahdanau).train(), "test", None)["aer"] <= 1


def test_data_without_truth_has_no_rate(tmp_path):
    (tmp_path / "x.tsv").write_text("".join(f"a{i}\tb{i}\n" for i in range(60)), encoding="utf-8")
    config = translation.Config(path=tmp_path / "x.tsv", source="1", target="2", vocab_size=200)
    task = translation.build(config)
    assert task.extra_metrics(build(task, bahdanau), "test", None) == {} and "aer" not in task.signatures()
