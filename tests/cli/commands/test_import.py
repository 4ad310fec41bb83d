"""`regard import`: a folder of transformers becomes a run, and the next commands are printed."""

import json

import pytest
from run_cli import call


def test_a_folder_becomes_a_run(capsys, tmp_path):
    library = pytest.importorskip("transformers", reason="the extra huggingface is not installed")
    library.logging.set_verbosity_error()
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
    config = library.ViTConfig(image_size=8, patch_size=4, num_channels=1, **shape)
    library.ViTForImageClassification(config).save_pretrained(tmp_path / "saved")
    processor = {"size": {"height": 8, "width": 8}, "image_mean": [0.5], "image_std": [0.5]}
    (tmp_path / "saved" / "preprocessor_config.json").write_text(json.dumps(processor))
    capsys.readouterr()
    call("import", tmp_path / "saved", "--out", tmp_path / "run")
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{tmp_path / 'run'}: vit for image_classification, ")
    assert first.endswith(" parameters, the same logits as in transformers")
    assert second == f"check it: regard check {tmp_path / 'run'}; use it: regard classify {tmp_path / 'run'} …"
    call("classify", tmp_path / "run", tmp_path / "run" / "example.png")
    assert capsys.readouterr().out


def test_a_missing_folder_is_a_one_line_error(capsys, tmp_path):
    pytest.importorskip("transformers", reason="the extra huggingface is not installed")
    with pytest.raises(SystemExit):
        call("import", tmp_path / "nowhere", "--out", tmp_path / "run")
    error = capsys.readouterr().err
    assert "nowhere: no such folder; give a folder saved by transformers" in error and error.count("\n") == 1
    assert not (tmp_path / "run").exists()
