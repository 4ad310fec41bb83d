import pytest

from regard.core.errors import ConfigError
from regard.data import sources
from regard.data.text import Languages


def opened(source="en", target="ko", path=None, count=50):
    return sources.open_pairs(path, sources.BUILT_IN, languages=Languages(source, target), count=count, seed=1)


def test_the_built_in_data_has_three_disjoint_splits():
    found = {name: list(pairs) for name, pairs in opened().items()}
    assert {name: len(rows) for name, rows in found.items()} == {"train": 50, "valid": 500, "test": 500}
    texts = [source for rows in found.values() for source, _ in rows]
    assert len(set(texts)) == len(texts)


def test_either_direction():
    assert list(opened("ko", "en")["train"]) == [(t, s) for s, t in opened()["train"]]


def test_other_languages_need_a_path():
    with pytest.raises(ConfigError, match=r"source='en' target='de': the built-in data has en and ko; give data.path"):
        opened("en", "de")


def test_a_path_comes_first(tmp_path):
    rows = "".join(f"dog {i}\t개 {i}\n" for i in range(60))
    (tmp_path / "x.tsv").write_text(rows, encoding="utf-8")
    found = opened(path=tmp_path / "x.tsv")
    assert sum(len(list(pairs)) for pairs in found.values()) == 60
