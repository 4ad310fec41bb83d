"""BERT encoders computed by CTranslate2: the same features, and the same predictions of every task that uses one."""

import pytest
import torch

import regard
from regard.core.data_specs import DocumentSpec
from regard.core.errors import ConfigError
from regard.core.protocols import Padded
from regard.engines.ctranslate2 import models
from regard.engines.ctranslate2.export import export
from regard.models import bert
from regard.training import recipe as recipes
from regard.training.train import train

ctranslate2 = pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
SMALL = ["model.layers=1", "model.dim=16", "model.ffn_dim=32", "model.heads=2", "model.segments=0"]
SHORT = ["training.steps=6", "training.evaluation.every=6"]
SIZES = ["data.vocab_size=300"]
TASKS = ["classification", "tagging", "masked_language"]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("segments", [0, 2])
def test_features_are_the_same(tmp_path, norm, segments):
    torch.manual_seed(1)
    config = bert.Config(layers=2, dim=32, heads=4, ffn_dim=64, norm=norm, segments=segments)
    sizes = DocumentSpec(50, 3, max_length=12, max_sentence_length=12, max_sentences=1)
    model = bert.build(config, sizes).eval()
    export(model, sizes, tmp_path / "exported")
    external, _ = models.with_ct2_encoder(
        model, ctranslate2.Encoder(str(tmp_path / "exported"), compute_type="float32")
    )
    text = Padded(torch.randint(4, 50, (3, 9)), torch.tensor([9, 4, 1]))
    expected, actual = model.encoder(text), external.encoder(text)
    assert actual.shape == expected.shape
    for row, length in enumerate(text.lengths.tolist()):
        torch.testing.assert_close(actual[row, :length], expected[row, :length], atol=1e-5, rtol=1e-4)
    assert model.encoder is not external.encoder  # the model itself is unchanged


def test_a_second_segment_is_encoded_natively(tmp_path):
    sizes = DocumentSpec(50, 3, max_length=12, max_sentence_length=12, max_sentences=1)
    model = bert.build(bert.TINY, sizes).eval()
    external, _ = models.with_ct2_encoder(model, None)  # would fail if it were called
    text, segments = Padded(torch.randint(4, 50, (2, 6)), torch.tensor([6, 6])), torch.tensor([[0, 0, 0, 1, 1, 1]] * 2)
    torch.testing.assert_close(external.encoder(text, segments), model.encoder(text, segments))


def test_a_narrow_embedding_is_refused(tmp_path):
    sizes = DocumentSpec(50, 3, max_length=12, max_sentence_length=12, max_sentences=1)
    model = bert.build(bert.Config(layers=1, dim=32, heads=4, ffn_dim=64, embedding=16), sizes)
    with pytest.raises(ConfigError, match="the embedding must be as wide as the encoder; use the native engine"):
        export(model, sizes, tmp_path / "exported")


@pytest.mark.parametrize("task", TASKS)
def test_engine_auto_uses_ctranslate2_with_equal_predictions(task, tmp_path):
    folder = train(recipes.read(task, settings=["model=bert", *SMALL, *SHORT, *SIZES]), tmp_path / "run")
    run, native = regard.load(folder, engine="auto"), regard.load(folder)
    texts = list(native.task.examples)
    predictions = run.predict(texts)
    assert run.engine_note == "" and run.uses_external_engine
    for expected, actual in zip(native.predict(texts), predictions, strict=True):
        assert [prediction.text for prediction in actual] == [prediction.text for prediction in expected]
        scores = [prediction.score or 0 for prediction in expected]
        assert [prediction.score or 0 for prediction in actual] == pytest.approx(scores, rel=1e-3, abs=1e-3)
