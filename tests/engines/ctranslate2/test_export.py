"""An exported model gives the same outputs in CTranslate2. Without the extra there is an error that says so."""

import sys

import pytest
import torch

from regard.core.data_specs import Seq2SeqSpec, SpecialTokens
from regard.core.errors import ConfigError, MissingExtra
from regard.core.protocols import Padded
from regard.decoding.strategy import build as build_decoding
from regard.engines.ctranslate2.export import export
from regard.models import bahdanau, transformer

SPEC = Seq2SeqSpec(source_vocab_size=40, target_vocab_size=40, max_length=32, joint_vocab=True)


def build(**settings):
    torch.manual_seed(1)
    model = transformer.build(transformer.Config(layers=2, dim=32, ffn_dim=64, heads=4, **settings), SPEC).eval()
    for weight in model.parameters():
        if weight.dim() == 2:
            weight.data.mul_(1.7)
    return model


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_outputs_are_the_same(tmp_path, norm):
    ctranslate2 = pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
    model = build(norm=norm)
    export(model, SPEC, tmp_path / "exported")
    engine = ctranslate2.Translator(str(tmp_path / "exported"), compute_type="float32", intra_threads=1)
    source = Padded(torch.randint(4, 40, (6, 7)), torch.full((6,), 7))
    suppressed = [["0"], ["2"]]
    results = engine.translate_batch(
        [[str(token) for token in row] for row in source.tokens.tolist()],
        beam_size=1,
        max_decoding_length=12,
        suppress_sequences=suppressed,
    )
    limits = torch.full((6,), 12)
    expected = build_decoding("greedy")(model, model.start(source), special_tokens=SpecialTokens(), limits=limits)
    assert [tuple(map(int, result.hypotheses[0])) for result in results] == [best.tokens for (best,) in expected]


def test_unsupported_models_are_named(tmp_path):
    with pytest.raises(
        ConfigError, match="CTranslate2: does not support Bahdanau; only Transformer, GPT and BERT can be exported"
    ):
        export(bahdanau.build(bahdanau.TINY, SPEC), SPEC, tmp_path / "exported")


def test_positions_in_the_score_cannot_be_exported(tmp_path):
    pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
    with pytest.raises(ConfigError, match=r"CTranslate2: supports only scaled dot products.*use the native engine"):
        export(build(position="rotary"), SPEC, tmp_path / "exported")


def test_without_the_extra_the_error_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2.specs", None)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(MissingExtra, match=r"pip install 'regard\[ctranslate2\]'"):
        export(build(), SPEC, tmp_path / "exported")
