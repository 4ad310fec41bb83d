"""Language models by CTranslate2: greedy and beam search give the same texts as our own engine, draws repeat."""

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


@pytest.fixture(scope="module", params=["learned", "rotary"])
def folder(request, tmp_path_factory):
    pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
    chosen = recipes.read("language", settings=[*SMALL, *SHORT, f"model.position={request.param}"])
    return train(chosen, tmp_path_factory.mktemp("runs") / request.param)


def answers(folder, decoding, **options):
    native, other = (
        regard.load(folder, [f"decoding={decoding}"], engine=engine).predict(TEXTS, **options)
        for engine in ("native", "ctranslate2")
    )
    return native, other


@pytest.mark.parametrize("decoding", ["greedy", "beam"])
def test_texts_and_scores_are_the_same_beyond_the_context_too(folder, decoding):
    native, other = answers(folder, decoding, tokens=40)  # the context has 24
    assert [row[0].text for row in other] == [row[0].text for row in native]
    for ours, theirs in zip(native, other, strict=True):
        assert theirs[0].score == pytest.approx(ours[0].score, rel=1e-4)


@pytest.mark.parametrize("decoding", ["greedy", "beam"])
def test_many_texts_go_on_together_as_each_does_alone(folder, decoding):
    run = regard.load(folder, [f"decoding={decoding}"], engine="ctranslate2")
    texts = ["The list", "A class is", "The", "", "A class", "The list is", "An object", ""]
    together = run.predict(texts, tokens=15)
    alone = [run.predict([text], tokens=15)[0] for text in texts]
    assert [row[0].text for row in together] == [row[0].text for row in alone]
    assert [row[0].score for row in together] == pytest.approx([row[0].score for row in alone], rel=1e-4)


@pytest.mark.parametrize("tokens", [1, 4, 30])
def test_a_beam_that_is_cut_at_its_limit_is_ours(folder, tokens):
    texts = ["The", "A class", "The list is", "", "An", "is the class"]
    settings = ["decoding=beam", "decoding.beam_width=4", "decoding.nbest=3"]
    native, other = (
        regard.load(folder, settings, engine=engine).predict(texts, tokens=tokens)
        for engine in ("native", "ctranslate2")
    )
    assert [[one.text for one in row] for row in other] == [[one.text for one in row] for row in native]


def test_draws_repeat_and_do_not_depend_on_other_texts(folder):
    run = regard.load(folder, ["decoding=sample"], engine="ctranslate2")
    first, again = (run.predict(TEXTS, tokens=12, seed=3) for _ in range(2))
    assert [row[0].text for row in first] == [row[0].text for row in again]
    assert run.predict(TEXTS[:1], tokens=12, seed=3)[0][0].text == first[0][0].text
    assert run.predict(TEXTS, tokens=12, seed=4)[0][0].text != first[0][0].text
    assert len({answer.text for answer in run.predict(TEXTS[:1], tokens=12, samples=3)[0]}) == 3


def test_what_it_cannot_do_is_one_line(folder):
    run = regard.load(folder, engine="ctranslate2")
    with pytest.raises(ConfigError, match="engine ctranslate2 goes on by greedy, beam or sample, not by nothing"):
        run._engine(None)
    model, decoding = run._engine(run.recipe.decoding)
    with pytest.raises(ConfigError, match="engine ctranslate2 knows no grammar; use engine native"):
        decoding(model, None, marks=run.task.spec.marks, limits=torch.tensor([5]), grammar=object())
