"""`regard export`: says what was made and how it was verified; what cannot be made is one line."""

import pytest
from run_cli import call


def test_to_ctranslate2_beside_the_run(small, capsys, tmp_path):
    pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
    call("export", small, "--to", "ctranslate2", "--out", tmp_path / "made")
    said = capsys.readouterr().out
    assert said.startswith(f"{tmp_path / 'made'}: for CTranslate2") and "gives equal results" in said
    assert (tmp_path / "made" / "model.bin").exists()


@pytest.mark.parametrize(
    ("to", "message"),
    [
        ("huggingface", "model.norm='pre' does not fit Marian, which has 'post'"),
        ("tensorflow", "--to tensorflow: known: ctranslate2, huggingface, onnx"),
    ],
)
def test_what_cannot_be_made_is_one_line(small, capsys, tmp_path, to, message):
    with pytest.raises(SystemExit):
        call("export", small, "--to", to, "--out", tmp_path / "made")
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not (tmp_path / "made").exists()
