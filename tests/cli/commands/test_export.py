"""`regard export`: print what was exported and how it was verified; one-line errors."""

import pytest
from run_cli import call


def test_export_to_ctranslate2(small, capsys, tmp_path):
    pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
    call("export", small, "--to", "ctranslate2", "--out", tmp_path / "exported")
    printed = capsys.readouterr().out
    assert printed.startswith(f"{tmp_path / 'exported'}: for CTranslate2") and "gives equal results" in printed
    assert (tmp_path / "exported" / "model.bin").exists()


@pytest.mark.parametrize(
    ("to", "message"),
    [
        ("huggingface", "model.norm='pre' does not fit Marian, which has 'post'"),
        ("tensorflow", "--to tensorflow: known: ctranslate2, huggingface, onnx"),
    ],
)
def test_an_unsupported_export_is_a_one_line_error(small, capsys, tmp_path, to, message):
    with pytest.raises(SystemExit):
        call("export", small, "--to", to, "--out", tmp_path / "exported")
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not (tmp_path / "exported").exists()
