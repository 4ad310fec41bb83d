import gzip

import pytest

from regard.core.errors import ConfigError
from regard.data import download, sources
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


def test_an_unknown_name_is_an_error():
    with pytest.raises(
        ConfigError, match=r"no data 'multi3k'; did you mean 'multi30k'\?; files are given as data.path="
    ):
        sources.open_pairs(None, "multi3k", languages=Languages("en", "de"), count=1, seed=1)


def test_a_download_is_read_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    (tmp_path / "multi30k").mkdir()
    for name in download.SETS["multi30k"].files:
        (tmp_path / "multi30k" / name).write_bytes(gzip.compress(f"{name}\n".encode()))
    found = sources.open_pairs(None, "multi30k", languages=Languages("de", "en"), count=1, seed=1)
    assert list(found["test"]) == [("test_2016_flickr.de.gz", "test_2016_flickr.en.gz")]
