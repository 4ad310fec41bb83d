"""Engines of one run give the same answers; what an engine cannot do is one line."""

import pytest
import torch

import regard
from regard.attention.record import record
from regard.core.data_specs import Seq2SeqSpec
from regard.core.errors import ConfigError, RegardError
from regard.core.protocols import Padded
from regard.engines.engine import OptimizedModelCache
from regard.models import bahdanau, transformer
from regard.training import recipe as recipes
from regard.training.train import train

SMALL = ["model.layers=1", "model.dim=32", "model.ffn_dim=32", "model.heads=2", "data.pairs=300", "data.vocab_size=300"]
SHORT = ["training.steps=3", "training.evaluation.every=3", "model.dropout=0.0"]
TEXTS = ["The cook is reading a book.", "", "Please buy two apples.", "The teacher sleeps."]


def trained(folder, *settings):
    chosen = recipes.read("translation", settings=[*SHORT, *settings])
    return train(chosen, folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("runs") / "small", "model=transformer", *SMALL)


@pytest.mark.parametrize(("decoding", "nbest"), [("greedy", 1), ("greedy", 3), ("beam", 1), ("beam", 3)])
def test_ctranslate2_gives_the_same_answers(folder, decoding, nbest):
    pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
    native, other = (
        regard.load(folder, [f"decoding={decoding}"], engine=engine).predict(TEXTS, nbest=nbest)
        for engine in ("native", "ctranslate2")
    )
    assert [answers[0].text for answers in other] == [answers[0].text for answers in native]
    assert [len(answers) for answers in other] == [nbest, 1, nbest, nbest]
    assert (other[1][0].text, other[1][0].score) == ("", 0.0)
    # At the limit CTranslate2 counts no end mark, so scores of cut outputs differ from ours; their order does not.
    assert all(others == sorted(others, key=lambda answer: -answer.rank) for _, *others in other)


def test_an_export_is_made_once_lies_in_the_cache_and_is_checked(folder, tmp_path, monkeypatch):
    pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    before = sorted(path.name for path in folder.iterdir())
    texts = regard.load(folder, engine="ctranslate2").translate(TEXTS)
    (export,) = (tmp_path / "ctranslate2").iterdir()
    assert sorted(path.name for path in folder.iterdir()) == before  # no run folder brings its own
    made = (export / "model.bin").stat().st_ino
    assert regard.load(folder, engine="ctranslate2").translate(TEXTS) == texts
    assert (export / "model.bin").stat().st_ino == made
    (export / "model.bin").write_bytes((export / "model.bin").read_bytes()[:-1] + b"?")
    assert regard.load(folder, engine="ctranslate2").translate(TEXTS) == texts  # damaged, and made anew
    assert (export / "model.bin").read_bytes()[-1:] != b"?"


def test_eight_bits_translate(folder):
    found = regard.load(folder, engine="int8").translate(TEXTS)
    assert len(found) == len(TEXTS) and found[1] == ""


def test_ctranslate2_does_not_sample(folder):
    pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
    with pytest.raises(ConfigError, match="engine ctranslate2 searches by greedy or beam, not by sample"):
        regard.load(folder, ["decoding=sample"], engine="ctranslate2").translate(TEXTS)


def test_ctranslate2_needs_a_search(folder):
    pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
    with pytest.raises(ConfigError, match="engine ctranslate2 searches by greedy or beam, not by nothing"):
        regard.load(folder, engine="ctranslate2")._engine(None)


def test_ctranslate2_gives_whole_outputs_only(folder):
    pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
    run = regard.load(folder, engine="ctranslate2")
    model, decoding = run._engine(run.recipe.decoding)
    source = Padded(torch.tensor([[5, 3]]), torch.tensor([2]))
    with pytest.raises(ConfigError, match="engine ctranslate2 gives whole outputs only; use engine native"):
        model.features(torch.tensor([[2]]), model.start(source))
    with pytest.raises(
        ConfigError, match="engine ctranslate2 knows neither a beginning nor a grammar; use engine native"
    ):
        decoding(model, source, marks=run.task.spec.marks, limits=torch.tensor([5]), first=torch.tensor([7]))


def test_an_unknown_engine_is_named(folder):
    with pytest.raises(ConfigError, match="no engine 'int9'; did you mean 'int8'"):
        regard.load(folder, engine="int9").predict([])


def test_other_models_have_the_native_engine(tmp_path):
    torch.manual_seed(0)
    small = ["model.dim=16", "model.embedding=8", "data.pairs=300", "data.vocab_size=300"]
    folder = trained(tmp_path / "run", "model=bahdanau", *small)
    assert len(regard.load(folder).translate(TEXTS)) == len(TEXTS)
    for engine, message in (("int8", "engine int8 is for the Transformer"), ("ctranslate2", "has no Bahdanau")):
        with pytest.raises(RegardError, match=message):
            regard.load(folder, engine=engine).translate(TEXTS)


SIZES = Seq2SeqSpec(source_vocab_size=19, target_vocab_size=23, max_length=64)


def test_a_model_is_made_ready_once():
    ready = OptimizedModelCache(transformer.build(transformer.TINY, SIZES).eval())
    assert ready() is ready()


def test_changed_weights_are_seen():
    model = transformer.build(transformer.TINY, SIZES).eval()
    ready = OptimizedModelCache(model)
    before = ready()
    with torch.no_grad():
        model.readout.weight.mul_(2)
    assert ready() is not before
    after = ready()
    model.readout.weight = torch.nn.Parameter(model.readout.weight.detach() + 1)
    assert ready() is not after


def test_a_watched_model_is_used_itself():
    model = transformer.build(transformer.TINY, SIZES).eval()
    ready = OptimizedModelCache(model)
    assert ready() is not model
    source = Padded(torch.tensor([[5, 6, 3]]), torch.tensor([3]))
    with record(model), torch.no_grad():
        assert ready() is model
        ready()(torch.tensor([[2]]), ready().start(source))
    assert ready() is not model


def test_a_model_that_has_no_faster_copy():
    model = bahdanau.build(bahdanau.TINY, SIZES)
    assert OptimizedModelCache(model)() is model


def test_a_run_can_be_loaded_for_inference_alone(folder):
    with torch.inference_mode():
        run = regard.load(folder)
        assert run.predict(TEXTS[:1]) == regard.load(folder).predict(TEXTS[:1])
