"""Engines of one run give the same predictions; unsupported requests are a one-line error."""

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

TEXTS = ["The cook is reading a book.", "", "Please buy two apples.", "The teacher sleeps."]


@pytest.mark.parametrize(("decoding", "n"), [("greedy", 1), ("greedy", 3), ("beam", 1), ("beam", 3)])
def test_ctranslate2_gives_the_native_predictions(translation_run, decoding, n):
    pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
    native, ct2 = (
        regard.load(translation_run, [f"decoding={decoding}"], engine=engine).predict(TEXTS, n=n)
        for engine in ("native", "ctranslate2")
    )
    assert [row[0].text for row in ct2] == [row[0].text for row in native]
    assert [len(row) for row in ct2] == [n, 1, n, n]
    assert (ct2[1][0].text, ct2[1][0].score) == ("", 0.0)
    # At the limit CTranslate2 does not count EOS, so scores of cut outputs differ from native ones; the order does not.
    assert all(rest == sorted(rest, key=lambda prediction: -prediction.ranking_score) for _, *rest in ct2)


def test_an_export_is_created_once_in_the_cache_and_verified(translation_run, tmp_path, monkeypatch):
    pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    files = sorted(path.name for path in translation_run.iterdir())
    texts = regard.load(translation_run, engine="ctranslate2").translate(TEXTS)
    (export,) = (tmp_path / "ctranslate2").iterdir()
    assert sorted(path.name for path in translation_run.iterdir()) == files  # exports are not in run folders
    inode = (export / "model.bin").stat().st_ino
    assert regard.load(translation_run, engine="ctranslate2").translate(TEXTS) == texts
    assert (export / "model.bin").stat().st_ino == inode
    (export / "model.bin").write_bytes((export / "model.bin").read_bytes()[:-1] + b"?")
    assert regard.load(translation_run, engine="ctranslate2").translate(TEXTS) == texts  # damaged, and created again
    assert (export / "model.bin").read_bytes()[-1:] != b"?"


def test_int8_translates(translation_run):
    translations = regard.load(translation_run, engine="int8").translate(TEXTS)
    assert len(translations) == len(TEXTS) and translations[1] == ""


def test_ctranslate2_does_not_sample(translation_run):
    pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
    with pytest.raises(ConfigError, match="engine ctranslate2: supports greedy and beam, not sample; use engine nat"):
        regard.load(translation_run, ["decoding=sample"], engine="ctranslate2").translate(TEXTS)


def test_ctranslate2_needs_a_decoding_strategy(translation_run):
    pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
    with pytest.raises(ConfigError, match="engine ctranslate2: supports greedy and beam, not a task without decoding"):
        regard.load(translation_run, engine="ctranslate2").engine_handle(None)


def test_ctranslate2_returns_complete_outputs_only(translation_run):
    pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
    run = regard.load(translation_run, engine="ctranslate2")
    model, decoding = run.engine_handle(run.recipe.decoding)
    source = Padded(torch.tensor([[5, 3]]), torch.tensor([2]))
    with pytest.raises(ConfigError, match="engine ctranslate2: returns complete outputs only; use engine native"):
        model.features(torch.tensor([[2]]), model.start(source))
    options = {"special_tokens": run.task.spec.special_tokens, "limits": torch.tensor([5])}
    with pytest.raises(ConfigError, match="engine ctranslate2: supports neither a prefix nor a grammar; use engine n"):
        decoding(model, source, **options, first_input=torch.tensor([7]))


def test_an_unknown_engine_is_named(translation_run):
    with pytest.raises(ConfigError, match="no engine 'int9'; did you mean 'int8'"):
        regard.load(translation_run, engine="int9").predict([])


def test_other_models_have_the_native_engine_only(tmp_path):
    torch.manual_seed(0)
    settings = ["model=bahdanau", "model.dim=16", "model.embedding=8", "data.pairs=300", "data.vocab_size=300"]
    settings += ["training.steps=3", "training.evaluation.every=3", "model.dropout=0.0"]
    folder = train(recipes.read("translation", settings=settings), tmp_path / "run")
    assert len(regard.load(folder).translate(TEXTS)) == len(TEXTS)
    for engine, message in (
        ("int8", "engine int8: only for the Transformer"),
        ("ctranslate2", "does not support Bahdanau"),
    ):
        with pytest.raises(RegardError, match=message):
            regard.load(folder, engine=engine).translate(TEXTS)


SPEC = Seq2SeqSpec(source_vocab_size=19, target_vocab_size=23, max_length=64)


def test_a_model_is_optimized_once():
    optimized = OptimizedModelCache(transformer.build(transformer.TINY, SPEC).eval())
    assert optimized() is optimized()


def test_changed_weights_are_detected():
    model = transformer.build(transformer.TINY, SPEC).eval()
    optimized = OptimizedModelCache(model)
    first = optimized()
    with torch.no_grad():
        model.readout.weight.mul_(2)
    assert optimized() is not first
    second = optimized()
    model.readout.weight = torch.nn.Parameter(model.readout.weight.detach() + 1)
    assert optimized() is not second


def test_a_model_with_hooks_is_not_optimized():
    model = transformer.build(transformer.TINY, SPEC).eval()
    optimized = OptimizedModelCache(model)
    assert optimized() is not model
    source = Padded(torch.tensor([[5, 6, 3]]), torch.tensor([3]))
    with record(model), torch.no_grad():
        assert optimized() is model
        optimized()(torch.tensor([[2]]), optimized().start(source))
    assert optimized() is not model


def test_a_model_without_an_optimized_form():
    model = bahdanau.build(bahdanau.TINY, SPEC)
    assert OptimizedModelCache(model)() is model


def test_a_run_can_be_loaded_in_inference_mode(translation_run):
    with torch.inference_mode():
        run = regard.load(translation_run)
        assert run.predict(TEXTS[:1]) == regard.load(translation_run).predict(TEXTS[:1])
