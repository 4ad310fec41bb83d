"""Language models with CTranslate2: greedy and beam search give the native texts, and samples are reproducible."""

import pytest
import torch

import regard
from regard.core.errors import ConfigError
from regard.training import recipe as recipes
from regard.training.train import train

SMALL = [
    "model.layers=2",
    "model.dim=32",
    "model.heads=2",
    "data.vocab_size=300",
    "data.context=24",
    "data.batch_size=4",
]
SHORT = ["training.steps=4", "training.evaluation.every=4", "data.eval_tokens=500", "training.optimizer.lr=0.01"]
TEXTS = ["The list", "", "A class is"]
ENGINES = ("native", "ctranslate2")


@pytest.fixture(scope="module", params=["learned", "rotary"])
def folder(request, tmp_path_factory):
    pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
    recipe = recipes.read("language", settings=[*SMALL, *SHORT, f"model.position={request.param}"])
    return train(recipe, tmp_path_factory.mktemp("runs") / request.param)


def predict_with_both(folder, settings, texts, **options):
    """Return the predictions of the native engine and of CTranslate2."""
    return [regard.load(folder, settings, engine=engine).predict(texts, **options) for engine in ENGINES]


@pytest.mark.parametrize("decoding", ["greedy", "beam"])
def test_texts_and_scores_are_native_beyond_the_context_too(folder, decoding):
    native, ct2 = predict_with_both(folder, [f"decoding={decoding}"], TEXTS, tokens=40)  # the context has 24
    assert [row[0].text for row in ct2] == [row[0].text for row in native]
    assert [row[0].score for row in ct2] == pytest.approx([row[0].score for row in native], rel=1e-4)


@pytest.mark.parametrize("decoding", ["greedy", "beam"])
def test_a_batch_of_prompts_gives_the_continuations_of_each_alone(folder, decoding):
    run = regard.load(folder, [f"decoding={decoding}"], engine="ctranslate2")
    texts = ["The list", "A class is", "The", "", "A class", "The list is", "An object", ""]
    together = run.predict(texts, tokens=15)
    alone = [run.predict([text], tokens=15)[0] for text in texts]
    assert [row[0].text for row in together] == [row[0].text for row in alone]
    assert [row[0].score for row in together] == pytest.approx([row[0].score for row in alone], rel=1e-4)


@pytest.mark.parametrize("tokens", [1, 4, 30])
def test_a_beam_that_is_cut_at_its_limit_is_decoded_natively(folder, tokens):
    texts = ["The", "A class", "The list is", "", "An", "is the class"]
    settings = ["decoding=beam", "decoding.beam_width=4", "decoding.nbest=3"]
    native, ct2 = (
        [[prediction.text for prediction in row] for row in rows]
        for rows in predict_with_both(folder, settings, texts, tokens=tokens)
    )
    assert ct2 == native


def test_samples_are_reproducible_and_do_not_depend_on_other_texts(folder):
    run = regard.load(folder, ["decoding=sample"], engine="ctranslate2")
    first, second = (run.predict(TEXTS, tokens=12, seed=3) for _ in range(2))
    assert [row[0].text for row in first] == [row[0].text for row in second]
    assert run.predict(TEXTS[:1], tokens=12, seed=3)[0][0].text == first[0][0].text
    assert run.predict(TEXTS, tokens=12, seed=4)[0][0].text != first[0][0].text
    assert len({prediction.text for prediction in run.predict(TEXTS[:1], tokens=12, n=3)[0]}) == 3


def test_unsupported_requests_are_a_one_line_error(folder):
    run = regard.load(folder, engine="ctranslate2")
    with pytest.raises(
        ConfigError, match="engine ctranslate2: supports greedy, beam and sample, not a task without decoding"
    ):
        run.engine_handle(None)
    model, decoding = run.engine_handle(run.recipe.decoding)
    options = {"special_tokens": run.task.spec.special_tokens, "limits": torch.tensor([5])}
    with pytest.raises(ConfigError, match="engine ctranslate2: does not support a grammar; use engine native"):
        decoding(model, None, **options, grammar=object())
