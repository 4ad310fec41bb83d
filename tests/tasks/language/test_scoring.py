"""Scores and vectors of texts by a language model."""

import numpy as np
import pytest
import torch

from regard.core.errors import DataError
from regard.models import gpt
from regard.tasks import language
from regard.tasks.language import Config, Options
from regard.tasks.language.generate import empty_source

TEXT = "the cat sat on the mat and the dog sat on the cat\n" * 30


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    for split in ("train", "valid", "test"):
        (folder / f"{split}.txt").write_text(TEXT)
    return language.build(Config(paths=(str(folder),), tokenizer="char", context=16, batch_size=4))


@pytest.fixture(scope="module")
def model(task):
    torch.manual_seed(0)
    return gpt.build(gpt.Config(layers=2, dim=32, heads=2), task.spec).eval()


def test_the_score_is_the_sum_of_the_log_probabilities_of_the_tokens(task, model):
    ((prediction,),) = task.predict(model, ["the cat"], Options(score=True), None)
    tokens = prediction.data["tokens"]
    assert "".join(token["text"] for token in tokens) == "the cat"
    assert [(token["start"], token["end"]) for token in tokens] == [(i, i + 1) for i in range(7)]
    assert prediction.score == pytest.approx(sum(token["log_probability"] for token in tokens))
    assert prediction.data["perplexity"] == pytest.approx(np.exp(-prediction.score / 7))
    row = torch.tensor([[task.special_tokens.bos, *task.tokenizer.encode(["the cat"])[0]]])
    with torch.no_grad():
        logits, _ = model(row[:, :-1], model.start(empty_source(1, torch.device("cpu"))))
    expected = logits.log_softmax(dim=-1)[0].gather(1, row[0, 1:, None]).sum()
    assert prediction.score == pytest.approx(float(expected), abs=1e-4)


def test_a_text_longer_than_the_context_is_read_in_windows(task, model):
    long = TEXT[:80]
    ((scored,),) = task.predict(model, [long], Options(score=True), None)
    ((vector,),) = task.predict(model, [long], Options(embed=True), None)
    assert len(scored.data["tokens"]) == 80 and len(vector.data["vector"]) == 32
    assert np.isfinite(vector.value).all()


def test_the_vector_does_not_depend_on_other_texts(task, model):
    together = task.predict(model, ["the cat", "a dog sat"], Options(embed=True), None)
    ((alone,),) = task.predict(model, ["the cat"], Options(embed=True), None)
    assert together[0][0].data == alone.data
    assert together[1][0].data != alone.data


def test_an_empty_text_has_no_score(task, model):
    with pytest.raises(DataError, match="there is no text to read; give some text"):
        task.predict(model, [""], Options(score=True), None)


@pytest.mark.parametrize("split", ["valid", "test"])
def test_an_untrained_model_gains_from_the_mixture_with_ngrams(task, model, split):
    scores = task.extra_metrics(model, split, None)
    assert scores["mixture_nats"] < task.evaluate(model, split, None)["nats"] and scores["mixture_weight"] > 0.5
    assert task.as_test_data().extra_metrics(model, "test", None) == {}
