import pytest

pytest.importorskip("sklearn")

import ngrams

from regard.tasks.classification import Config


def test_counting_words_is_not_enough_for_the_built_in_reviews():
    scores = ngrams.fit(Config(examples=1500))
    assert 0.5 < scores["valid"] < 1 and scores["features"] > 500


def test_a_recipe_is_read(tmp_path, capsys):
    path = tmp_path / "a.toml"
    path.write_text('task = "classification"\n[data]\ndataset = "reviews_ko"\nexamples = 400\ntokenizer = "char"\n')
    ngrams.main([str(path)])
    assert "valid 0." in capsys.readouterr().out or "valid 1" in capsys.readouterr().out
