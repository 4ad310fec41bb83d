"""`regard export`: print what was exported and how it was verified; one-line errors."""

import pytest
from run_cli import call

SMALL = ["model.layers=1", "model.dim=16", "model.ffn_dim=16", "model.heads=2", "data.pairs=300", "data.vocab_size=300"]


def test_export_to_ctranslate2(small, capsys, tmp_path):
    pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
    call("export", small, "--to", "ctranslate2", "--out", tmp_path / "exported")
    printed = capsys.readouterr().out
    assert printed.startswith(f"{tmp_path / 'exported'}: for CTranslate2") and "gives equal results" in printed
    assert (tmp_path / "exported" / "model.bin").exists()


@pytest.fixture(scope="module")
def untied(tmp_path_factory):
    """A small run with an own output layer, which Pegasus does not have."""
    folder = tmp_path_factory.mktemp("untied") / "run"
    changes = ["model.tie_embeddings=false", "training.steps=1"]
    call("train", "translation", "model=transformer", *SMALL, *changes, "--out", folder)
    return folder


@pytest.mark.parametrize(
    ("run", "to", "message"),
    [
        ("untied", "huggingface", "model.tie_embeddings=False does not fit Pegasus, which has True"),
        ("small", "tensorflow", "unknown format 'tensorflow'; known: ctranslate2, huggingface, onnx"),
    ],
)
def test_an_unsupported_export_is_a_one_line_error(request, capsys, tmp_path, *, run, to, message):
    folder = request.getfixturevalue(run)
    capsys.readouterr()
    with pytest.raises(SystemExit):
        call("export", folder, "--to", to, "--out", tmp_path / "exported")
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not (tmp_path / "exported").exists()
