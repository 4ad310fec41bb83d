import gzip
import hashlib

import pytest

from regard.core.errors import ConfigError
from regard.data.files import download
from regard.data.text import pair_sources
from regard.data.text.pair_files import Languages
from regard.data.text.pair_sources import PairSource


def pair_source(source="en", target="ko", *, path=None, name=pair_sources.BUILT_IN):
    return PairSource(path, name, Languages(source, target), seed=1)


def open_splits(source="en", target="ko", path=None, count=50):
    return pair_sources.open_pairs(pair_source(source, target, path=path), count=count)


def test_the_built_in_data_has_three_disjoint_splits():
    splits = {name: list(pairs) for name, pairs in open_splits().items()}
    assert {name: len(rows) for name, rows in splits.items()} == {"train": 50, "valid": 500, "test": 500}
    texts = [source for rows in splits.values() for source, _ in rows]
    assert len(set(texts)) == len(texts)


def test_either_direction():
    assert list(open_splits("ko", "en")["train"]) == [(t, s) for s, t in open_splits()["train"]]


def test_other_languages_need_a_path():
    with pytest.raises(ConfigError, match=r"source='en' target='de': the built-in data has en and ko; set data.path"):
        open_splits("en", "de")


def test_a_path_comes_first(tmp_path):
    rows = "".join(f"dog {i}\t개 {i}\n" for i in range(60))
    (tmp_path / "x.tsv").write_text(rows, encoding="utf-8")
    splits = open_splits(path=tmp_path / "x.tsv")
    assert sum(len(list(pairs)) for pairs in splits.values()) == 60


def test_an_unknown_name_is_an_error():
    with pytest.raises(
        ConfigError, match=r"no data 'multi3k'; files are given as data.path=…; did you mean 'multi30k'\?"
    ):
        pair_sources.open_pairs(pair_source("en", "de", name="multi3k"), count=1)


def test_a_download_is_read_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    (tmp_path / "multi30k").mkdir()
    files = {name: gzip.compress(f"{name}\n".encode()) for name in download.SETS["multi30k"].files}
    for name, content in files.items():
        (tmp_path / "multi30k" / name).write_bytes(content)
    checksums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    monkeypatch.setitem(download.SETS, "multi30k", download.SETS["multi30k"]._replace(files=checksums))
    splits = pair_sources.open_pairs(pair_source("de", "en", name="multi30k"), count=1)
    assert list(splits["test"]) == [("test_2016_flickr.de.gz", "test_2016_flickr.en.gz")]


@pytest.mark.parametrize(("source", "target"), [("en", "ko"), ("ko", "en")])
def test_built_in_data_has_a_true_alignment(source, target):
    pairs, links = (
        list(open_splits(source, target)["test"]),
        pair_sources.true_links(pair_source(source, target), "test"),
    )
    assert len(links) == len(pairs)
    for (left, right), pair_links in zip(pairs, links, strict=True):
        korean = {link[target == "ko"] for link in pair_links}
        assert korean == set(range(len((right if target == "ko" else left).split())))


@pytest.mark.parametrize(("source", "target"), [("en", "ko"), ("ko", "en")])
def test_the_true_alignment_of_a_single_pair(source, target):
    location = pair_source(source, target)
    for pair, links in zip(
        list(open_splits(source, target)["test"])[:5], pair_sources.true_links(location, "test"), strict=False
    ):
        assert pair_sources.true_links_of_pair(location, pair, count=50) == links
        assert pair_sources.true_links_of_pair(location, (pair[0], pair[1] + "?"), count=50) is None
        assert pair_sources.true_links_of_pair(location, (pair[0] + "?", pair[1]), count=50) is None
    for pair in list(open_splits(source, target)["train"])[:3]:
        assert pair_sources.true_links_of_pair(location, pair, count=50)


def test_other_data_has_no_true_alignment(tmp_path):
    for location in (pair_source(path=tmp_path), pair_source("de", "en", name="multi30k")):
        assert pair_sources.true_links(location, "test") is None
        assert pair_sources.true_links_of_pair(location, ("a", "b"), count=1) is None
