import gzip
import json
import lzma

import pytest

from regard.core.errors import ConfigError, DataError
from regard.data.text import pair_files
from regard.data.text.pair_files import Languages

EN_DE = Languages("en", "de", ("en", "de"))
ROWS = [("a dog", "ein Hund"), ("a cat", "eine Katze"), ("", "leer")]


def write(path, lines, opener=open):
    with opener(path, "wt", encoding="utf-8", newline="") as file:
        file.write("".join(f"{line}\n" for line in lines))
    return path


def write_pair(folder, stem="train", rows=ROWS, suffix="", opener=open):
    for side, code in enumerate(("en", "de")):
        write(folder / f"{stem}.{code}{suffix}", [row[side] for row in rows], opener)


@pytest.mark.parametrize(("suffix", "opener"), [("", open), (".gz", gzip.open), (".xz", lzma.open)])
def test_parallel_files_are_read_packed_or_not(tmp_path, suffix, opener):
    write_pair(tmp_path, suffix=suffix, opener=opener)
    assert list(pair_files.read(tmp_path, EN_DE)["train"]) == ROWS


def test_pairs_can_be_gone_through_again(tmp_path):
    write_pair(tmp_path)
    pairs = pair_files.read(tmp_path, EN_DE)["train"]
    assert list(pairs) == list(pairs)


@pytest.mark.parametrize("name", ["valid", "val", "dev", "validation"])
def test_splits_are_known_by_their_usual_names(tmp_path, name):
    for stem in ("train", name, "test_2016_flickr"):
        write_pair(tmp_path, stem)
    assert set(pair_files.read(tmp_path, EN_DE)) == {"train", "valid", "test"}


def test_either_direction_is_read(tmp_path):
    write_pair(tmp_path)
    assert list(pair_files.read(tmp_path, Languages("de", "en"))["train"]) == [(t, s) for s, t in ROWS]


def test_a_stem_is_read_as_two_files(tmp_path):
    write_pair(tmp_path, "news", suffix=".gz", opener=gzip.open)
    assert list(pair_files.read(tmp_path / "news", EN_DE)["train"]) == ROWS


@pytest.mark.parametrize("languages", [EN_DE, Languages("1", "2"), Languages("2", "1")])
def test_columns_by_order_or_number(tmp_path, languages):
    path = write(tmp_path / "train.tsv", [f"{s}\t{t}\tnote" for s, t in ROWS])
    expected = [(t, s) for s, t in ROWS] if languages.source == "2" else ROWS
    assert list(pair_files.read(path, languages)["train"]) == expected


def test_a_header_names_the_columns(tmp_path):
    path = write(tmp_path / "x.tsv", ["de\tid\ten", *(f"{t}\t7\t{s}" for s, t in ROWS)])
    assert list(pair_files.read(path, EN_DE)["train"]) == ROWS


def test_a_folder_of_tables(tmp_path):
    for name in ("train", "valid", "test"):
        write(tmp_path / f"{name}.tsv.gz", [f"{s}\t{t}" for s, t in ROWS], gzip.open)
    found = pair_files.read(tmp_path, EN_DE)
    assert set(found) == {"train", "valid", "test"} and list(found["test"]) == ROWS


@pytest.mark.parametrize("wrap", [dict, lambda row: {"translation": row}])
def test_json_lines(tmp_path, wrap):
    path = write(tmp_path / "x.jsonl", [json.dumps(wrap({"en": s, "de": t})) for s, t in ROWS])
    assert list(pair_files.read(path, EN_DE)["train"]) == ROWS


def test_only_a_newline_ends_a_line(tmp_path):
    rows = [("a\u2028b\x0bc\x85d", "x"), ("e", "y")]
    write_pair(tmp_path, rows=rows)
    assert list(pair_files.read(tmp_path, EN_DE)["train"]) == rows


def test_byte_order_mark_and_carriage_returns_are_dropped(tmp_path):
    (tmp_path / "x.tsv").write_bytes("\ufeffa\tb\r\nc\td\r\n".encode())
    assert list(pair_files.read(tmp_path / "x.tsv", EN_DE)["train"]) == [("a", "b"), ("c", "d")]


@pytest.mark.parametrize(("short", "long"), [("en", "de"), ("de", "en")])
def test_files_of_different_length_say_where_they_part(tmp_path, short, long):
    write(tmp_path / f"train.{short}", ["x"] * 3)
    write(tmp_path / f"train.{long}", ["x"] * 5)
    message = rf"train\.{short} ends after line 3 but .*train\.{long} has 5 lines; they must be aligned"
    with pytest.raises(DataError, match=message):
        list(pair_files.read(tmp_path, EN_DE)["train"])


def test_an_empty_file_is_an_error(tmp_path):
    write(tmp_path / "train.en", [])
    write(tmp_path / "train.de", ["x"])
    with pytest.raises(DataError, match=r"train\.en: the file is empty"):
        list(pair_files.read(tmp_path, EN_DE)["train"])


def test_invalid_utf8_names_file_and_byte(tmp_path):
    write_pair(tmp_path)
    (tmp_path / "train.de").write_bytes("schön\n".encode() + b"ab\xffc\n")
    with pytest.raises(
        DataError,
        match=r"train\.de: not UTF-8 \(byte 0xff in line 2\), and which encoding it is cannot be told; convert it",
    ):
        list(pair_files.read(tmp_path, EN_DE)["train"])


def test_a_damaged_archive_is_an_error(tmp_path):
    path = write(tmp_path / "x.tsv.gz", ["a\tb"] * 999, gzip.open)
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(DataError, match=r"x\.tsv\.gz: cannot be read: "):
        list(pair_files.read(path, EN_DE)["train"])


def test_a_missing_path_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"nowhere: no such file or folder"):
        pair_files.read(tmp_path / "nowhere", EN_DE)
    with pytest.raises(DataError, match=r"gone\.en: no such file"):
        list(pair_files.read_lines(tmp_path / "gone.en"))


def test_a_missing_language_is_an_error(tmp_path):
    write_pair(tmp_path)
    with pytest.raises(DataError, match=r"no file for language 'fr'; known: de, en"):
        pair_files.read(tmp_path, Languages("en", "fr"))


def test_a_missing_side_is_an_error(tmp_path):
    write_pair(tmp_path)
    write(tmp_path / "test.en", ["x"])
    with pytest.raises(DataError, match=r"test\.de is missing beside the other language"):
        pair_files.read(tmp_path, EN_DE)


def test_a_folder_without_splits_is_an_error(tmp_path):
    write_pair(tmp_path, "a")
    write_pair(tmp_path, "b")
    with pytest.raises(DataError, match=r"no file named train, valid or test; found a\.de, a\.en, b\.de, b\.en"):
        pair_files.read(tmp_path, EN_DE)


def test_an_unknown_column_is_an_error(tmp_path):
    path = write(tmp_path / "x.tsv", ["a\tb"])
    with pytest.raises(ConfigError, match=r"no language 'fr' among its columns en, de; give its number"):
        list(pair_files.read(path, Languages("en", "fr", ("en", "de")))["train"])


def test_too_few_columns_name_the_line(tmp_path):
    path = write(tmp_path / "x.tsv", ["a\tb", "c"])
    with pytest.raises(DataError, match=r"x\.tsv:2: 1 column, but column 2 is asked for"):
        list(pair_files.read(path, EN_DE)["train"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"x\.jsonl:1: not JSON: "),
        (
            '{"en": "a", "dee": "b"}',
            r"x\.jsonl:1: no language 'de'; name both: data.source=… data.target=…; did you mean 'dee'\?",
        ),
        ('{"en": "a", "de": 3}', r"x\.jsonl:1: 'de' holds 3, which is no text"),
        ("[1]", r"x\.jsonl:1: expected an object with a text for each language, got \[1\]"),
    ],
)
def test_wrong_records_name_the_line(tmp_path, line, message):
    path = write(tmp_path / "x.jsonl", [line])
    with pytest.raises(DataError, match=message):
        list(pair_files.read(path, EN_DE)["train"])


def test_an_unknown_kind_of_file_is_an_error(tmp_path):
    path = write(tmp_path / "x.docx", ["a"])
    with pytest.raises(DataError, match=r"x\.docx: unknown kind of file; expected \.tsv, \.csv or \.jsonl"):
        pair_files.read(path, EN_DE)


@pytest.mark.parametrize(
    ("name", "languages", "rows"),
    [
        ("multi30k", ("de", "en"), (29_000, 1_014, 1_000)),
        ("ko_en_tatoeba", ("en", "ko"), (4_745, 339, 322)),
        ("ko_en_pydocs", ("ko", "en", ("en", "ko")), (18_965, 809, 925)),
    ],
)
def test_real_data_is_read_as_it_is(shared_data, name, languages, rows):
    found = pair_files.read(shared_data / name, Languages(*languages))
    assert tuple(sum(1 for _ in found[split]) for split in ("train", "valid", "test")) == rows
    source, target = next(iter(found["valid"]))
    korean = {"ko": True, "en": False, "de": False}
    for code, sentence in zip(languages[:2], (source, target), strict=True):
        assert any("가" <= character <= "힣" for character in sentence) == korean[code]


def test_of_two_aligned_files_one_is_enough(tmp_path):
    (tmp_path / "two.en").write_text("the cat.\na dog.\n", encoding="utf-8")
    (tmp_path / "two.de").write_text("die Katze.\nein Hund.\n", encoding="utf-8")
    for name in ("two.en", "two.de"):
        read = pair_files.read(tmp_path / name, Languages("en", "de"))
        assert list(read["train"]) == [("the cat.", "die Katze."), ("a dog.", "ein Hund.")]


def test_one_of_two_aligned_files_alone_says_what_is_missing(tmp_path):
    (tmp_path / "two.en").write_text("the cat.\n", encoding="utf-8")
    message = (
        r"two\.en: two\.de is not beside it; put the lines of de there, as many as it has, or name another language: "
        r"data\.source=… data\.target=…$"
    )
    with pytest.raises(DataError, match=message):
        pair_files.read(tmp_path / "two.en", Languages("en", "de"))
    message = (
        r"two\.en: its language, en, is neither data\.source=fr nor data\.target=de; name the two, of which each has a "
        r"file: data\.source=en data\.target=…$"
    )
    with pytest.raises(DataError, match=message):
        pair_files.read(tmp_path / "two.en", Languages("fr", "de"))
