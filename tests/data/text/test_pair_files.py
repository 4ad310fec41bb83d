"""Readers of sentence pairs, and detection of columns by name, number or order."""

import gzip
import json
import lzma

import pytest

from regard.core.errors import ConfigError, DataError
from regard.data.checks.pairs import check
from regard.data.files.text_files import read_lines
from regard.data.text import pair_files
from regard.data.text.pair_files import Languages

EN_DE = Languages("en", "de", ("en", "de"))
GERMAN_ROWS = [("a dog", "ein Hund"), ("a cat", "eine Katze"), ("", "leer")]
EN_KO = Languages("en", "ko")
ROWS = [("Good morning.", "좋은 아침입니다."), ("Thank you very much.", "대단히 고마워요."), ("See you!", "또 봐요!")]


def write_lines(path, lines, opener=open):
    with opener(path, "wt", encoding="utf-8", newline="") as file:
        file.write("".join(f"{line}\n" for line in lines))
    return path


def write_pair(folder, stem="train", rows=GERMAN_ROWS, suffix="", opener=open):
    for side, code in enumerate(("en", "de")):
        write_lines(folder / f"{stem}.{code}{suffix}", [row[side] for row in rows], opener)


@pytest.mark.parametrize(("suffix", "opener"), [("", open), (".gz", gzip.open), (".xz", lzma.open)])
def test_plain_and_compressed_parallel_files_are_read(tmp_path, suffix, opener):
    write_pair(tmp_path, suffix=suffix, opener=opener)
    assert list(pair_files.read(tmp_path, EN_DE)["train"]) == GERMAN_ROWS


def test_pairs_can_be_read_repeatedly(tmp_path):
    write_pair(tmp_path)
    pairs = pair_files.read(tmp_path, EN_DE)["train"]
    assert list(pairs) == list(pairs)


@pytest.mark.parametrize("name", ["valid", "val", "dev", "validation"])
def test_common_names_of_splits_are_accepted(tmp_path, name):
    for stem in ("train", name, "test_2016_flickr"):
        write_pair(tmp_path, stem)
    assert set(pair_files.read(tmp_path, EN_DE)) == {"train", "valid", "test"}


def test_either_direction_is_read(tmp_path):
    write_pair(tmp_path)
    assert list(pair_files.read(tmp_path, Languages("de", "en"))["train"]) == [(t, s) for s, t in GERMAN_ROWS]


def test_a_stem_is_read_as_two_files(tmp_path):
    write_pair(tmp_path, "news", suffix=".gz", opener=gzip.open)
    assert list(pair_files.read(tmp_path / "news", EN_DE)["train"]) == GERMAN_ROWS


@pytest.mark.parametrize("languages", [EN_DE, Languages("1", "2"), Languages("2", "1")])
def test_columns_by_order_or_number(tmp_path, languages):
    path = write_lines(tmp_path / "train.tsv", [f"{s}\t{t}\tnote" for s, t in GERMAN_ROWS])
    expected = [(t, s) for s, t in GERMAN_ROWS] if languages.source == "2" else GERMAN_ROWS
    assert list(pair_files.read(path, languages)["train"]) == expected


def test_a_header_names_the_columns(tmp_path):
    path = write_lines(tmp_path / "x.tsv", ["de\tid\ten", *(f"{t}\t7\t{s}" for s, t in GERMAN_ROWS)])
    assert list(pair_files.read(path, EN_DE)["train"]) == GERMAN_ROWS


def test_a_folder_of_tables(tmp_path):
    for name in ("train", "valid", "test"):
        write_lines(tmp_path / f"{name}.tsv.gz", [f"{s}\t{t}" for s, t in GERMAN_ROWS], gzip.open)
    splits = pair_files.read(tmp_path, EN_DE)
    assert set(splits) == {"train", "valid", "test"} and list(splits["test"]) == GERMAN_ROWS


@pytest.mark.parametrize("wrap", [dict, lambda row: {"translation": row}])
def test_json_lines(tmp_path, wrap):
    path = write_lines(tmp_path / "x.jsonl", [json.dumps(wrap({"en": s, "de": t})) for s, t in GERMAN_ROWS])
    assert list(pair_files.read(path, EN_DE)["train"]) == GERMAN_ROWS


def test_only_a_newline_ends_a_line(tmp_path):
    rows = [("a\u2028b\x0bc\x85d", "x"), ("e", "y")]
    write_pair(tmp_path, rows=rows)
    assert list(pair_files.read(tmp_path, EN_DE)["train"]) == rows


def test_bom_and_carriage_returns_are_removed(tmp_path):
    (tmp_path / "x.tsv").write_bytes("\ufeffa\tb\r\nc\td\r\n".encode())
    assert list(pair_files.read(tmp_path / "x.tsv", EN_DE)["train"]) == [("a", "b"), ("c", "d")]


@pytest.mark.parametrize(("short", "long"), [("en", "de"), ("de", "en")])
def test_files_of_different_length_are_an_error(tmp_path, short, long):
    write_lines(tmp_path / f"train.{short}", ["x"] * 3)
    write_lines(tmp_path / f"train.{long}", ["x"] * 5)
    message = rf"train\.{short} ends after line 3 but .*train\.{long} has 5 lines; they must be aligned"
    with pytest.raises(DataError, match=message):
        list(pair_files.read(tmp_path, EN_DE)["train"])


def test_an_empty_file_is_an_error(tmp_path):
    write_lines(tmp_path / "train.en", [])
    write_lines(tmp_path / "train.de", ["x"])
    with pytest.raises(DataError, match=r"train\.en: the file is empty"):
        list(pair_files.read(tmp_path, EN_DE)["train"])


def test_invalid_utf8_names_file_and_byte(tmp_path):
    write_pair(tmp_path)
    (tmp_path / "train.de").write_bytes("schön\n".encode() + b"ab\xffc\n")
    with pytest.raises(
        DataError,
        match=r"train\.de: not UTF-8 \(byte 0xff in line 2\), and the encoding cannot be detected; convert it",
    ):
        list(pair_files.read(tmp_path, EN_DE)["train"])


def test_a_damaged_archive_is_an_error(tmp_path):
    path = write_lines(tmp_path / "x.tsv.gz", ["a\tb"] * 999, gzip.open)
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(DataError, match=r"x\.tsv\.gz: cannot be read: "):
        list(pair_files.read(path, EN_DE)["train"])


def test_a_missing_path_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"nowhere: no such file or folder"):
        pair_files.read(tmp_path / "nowhere", EN_DE)
    with pytest.raises(DataError, match=r"gone\.en: no such file"):
        list(read_lines(tmp_path / "gone.en"))


def test_a_missing_language_is_an_error(tmp_path):
    write_pair(tmp_path)
    with pytest.raises(DataError, match=r"no file for language 'fr'; known: de, en"):
        pair_files.read(tmp_path, Languages("en", "fr"))


def test_a_missing_side_is_an_error(tmp_path):
    write_pair(tmp_path)
    write_lines(tmp_path / "test.en", ["x"])
    with pytest.raises(DataError, match=r"test\.de is missing; the other language has test"):
        pair_files.read(tmp_path, EN_DE)


def test_a_folder_without_splits_is_an_error(tmp_path):
    write_pair(tmp_path, "a")
    write_pair(tmp_path, "b")
    with pytest.raises(DataError, match=r"no file named train, valid or test; it has a\.de, a\.en, b\.de, b\.en"):
        pair_files.read(tmp_path, EN_DE)


def test_an_unknown_column_is_an_error(tmp_path):
    path = write_lines(tmp_path / "x.tsv", ["a\tb"])
    with pytest.raises(ConfigError, match=r"no language 'fr' among its columns en, de; give its number"):
        list(pair_files.read(path, Languages("en", "fr", ("en", "de")))["train"])


def test_too_few_columns_name_the_line(tmp_path):
    path = write_lines(tmp_path / "x.tsv", ["a\tb", "c"])
    with pytest.raises(DataError, match=r"x\.tsv:2: 1 column, but column 2 is required"):
        list(pair_files.read(path, EN_DE)["train"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"x\.jsonl:1: not JSON: "),
        (
            '{"en": "a", "dee": "b"}',
            r"x\.jsonl:1: no language 'de'; name both: data.source=… data.target=…; did you mean 'dee'\?",
        ),
        ('{"en": "a", "de": 3}', r"x\.jsonl:1: 'de' is 3, which is not a text"),
        ("[1]", r"x\.jsonl:1: expected an object with a text for each language, got \[1\]"),
    ],
)
def test_invalid_records_name_the_line(tmp_path, line, message):
    path = write_lines(tmp_path / "x.jsonl", [line])
    with pytest.raises(DataError, match=message):
        list(pair_files.read(path, EN_DE)["train"])


def test_an_unknown_file_type_is_an_error(tmp_path):
    path = write_lines(tmp_path / "x.docx", ["a"])
    with pytest.raises(DataError, match=r"x\.docx: unknown file type; expected \.tsv, \.csv, \.xlsx or \.jsonl"):
        pair_files.read(path, EN_DE)


def test_a_bar_separates_columns(tmp_path):
    path = write_lines(tmp_path / "x.csv", ["en|de", "one, or two|eins, zwei"])
    assert list(pair_files.read(path, EN_DE)["train"]) == [("one, or two", "eins, zwei")]


@pytest.mark.parametrize(
    ("name", "languages", "rows"),
    [
        ("multi30k", ("de", "en"), (29_000, 1_014, 1_000)),
        ("ko_en_tatoeba", ("en", "ko"), (4_745, 339, 322)),
        ("ko_en_pydocs", ("ko", "en", ("en", "ko")), (18_965, 809, 925)),
    ],
)
def test_shared_data_is_read_completely(shared_data, name, languages, rows):
    splits = pair_files.read(shared_data / name, Languages(*languages))
    assert tuple(sum(1 for _ in splits[split]) for split in ("train", "valid", "test")) == rows
    source, target = next(iter(splits["valid"]))
    korean = {"ko": True, "en": False, "de": False}
    for code, sentence in zip(languages[:2], (source, target), strict=True):
        assert any("가" <= character <= "힣" for character in sentence) == korean[code]


def test_one_of_two_aligned_files_is_sufficient(tmp_path):
    (tmp_path / "two.en").write_text("the cat.\na dog.\n", encoding="utf-8")
    (tmp_path / "two.de").write_text("die Katze.\nein Hund.\n", encoding="utf-8")
    for name in ("two.en", "two.de"):
        splits = pair_files.read(tmp_path / name, Languages("en", "de"))
        assert list(splits["train"]) == [("the cat.", "die Katze."), ("a dog.", "ein Hund.")]


def test_a_missing_aligned_file_is_an_error(tmp_path):
    (tmp_path / "two.en").write_text("the cat.\n", encoding="utf-8")
    message = (
        r"two\.en: there is no two\.de next to it; add that file with the aligned lines of de, or name another "
        r"language: data\.source=… data\.target=…$"
    )
    with pytest.raises(DataError, match=message):
        pair_files.read(tmp_path / "two.en", Languages("en", "de"))
    message = (
        r"two\.en: its language, en, is neither data\.source=fr nor data\.target=de; name the languages of both "
        r"files: data\.source=en data\.target=…$"
    )
    with pytest.raises(DataError, match=message):
        pair_files.read(tmp_path / "two.en", Languages("fr", "de"))


def write_table(path, header, rows=ROWS, separator="\t"):
    lines = [header, *(separator.join(row) for row in rows)] if header else [separator.join(row) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def read_train(path, languages=EN_KO):
    return list(pair_files.read(path, languages)["train"])


@pytest.mark.parametrize(
    "header",
    [
        "en\tko",
        "EN\tKO",
        "영어\t한국어",
        "English\tKorean",
        "source\ttarget",
        "원문\t번역문",
        "영어 원문\t한국어 번역",
        "text_en\ttext_ko",
    ],
)
def test_a_header_with_language_names_is_detected(tmp_path, header):
    assert read_train(write_table(tmp_path / "x.tsv", header)) == ROWS
    assert check(tmp_path / "x.tsv") == []
    swapped = "\t".join(header.split("\t")[::-1])
    assert read_train(write_table(tmp_path / "y.tsv", swapped, [row[::-1] for row in ROWS])) == ROWS


def test_without_a_header_the_columns_are_source_and_target(tmp_path):
    path = write_table(tmp_path / "x.tsv", None, [row[::-1] for row in ROWS])
    assert read_train(path, Languages("ko", "en")) == [row[::-1] for row in ROWS]
    assert read_train(path, Languages("en", "ko", ("ko", "en"))) == ROWS
    assert read_train(path, Languages("2", "1")) == ROWS


def test_swapped_columns_are_refused(tmp_path):
    path = write_table(tmp_path / "x.tsv", None, [row[::-1] for row in ROWS])
    message = (
        r"x\.tsv: its columns seem to be swapped: '좋은 아침입니다\.' / 'Good morning\.' is read as "
        r"en / ko; set data\.columns=ko,en, or data\.source=ko data\.target=en$"
    )
    with pytest.raises(DataError, match=message):
        read_train(path)
    path = write_table(tmp_path / "y.tsv", "source\ttarget", [row[::-1] for row in ROWS])
    with pytest.raises(DataError, match=r"is read as en / ko; set data\.source=ko data\.target=en$"):
        read_train(path)


def test_an_ambiguous_header_is_an_error(tmp_path):
    path = write_table(
        tmp_path / "x.csv", "문장A,문장B", [("a good day", "좋은 날"), ("a bad day", "나쁜 날")], separator=","
    )
    message = (
        r"x\.csv: is its first line, '문장A', '문장B', a header\? It does not name en and ko\. If it is a header: "
        r"data\.source='문장A' data\.target='문장B', or data\.header=true data\.columns=en,ko \(its "
        r"columns, in order\); if it is a pair: data\.header=false$"
    )
    with pytest.raises(DataError, match=message):
        read_train(path)
    pairs = [("a good day", "좋은 날"), ("a bad day", "나쁜 날")]
    assert read_train(path, Languages("문장A", "문장B")) == pairs
    assert read_train(path, Languages("en", "ko", ("en", "ko"), header=True)) == pairs
    assert read_train(path, Languages("en", "ko", header=False)) == [("문장A", "문장B"), *pairs]
    assert read_train(path, Languages("1", "2", header=True)) == pairs
    with pytest.raises(
        DataError, match=r"a header\? Set data\.header=true if it is a header, data\.header=false if it is a pair$"
    ):
        read_train(path, Languages("1", "2"))
    (finding,) = check(path)
    assert finding.level == "error" and "a header?" in finding.text


def test_numbers_and_a_header_that_names_languages(tmp_path):
    assert read_train(write_table(tmp_path / "x.tsv", "영어\t한국어"), Languages("2", "1")) == [
        row[::-1] for row in ROWS
    ]


def test_a_language_without_a_column_is_an_error(tmp_path):
    message = (
        r"x\.tsv: no language 'fr' among its columns en, ko; give its number \(data\.source=1\) or name the columns in "
        r"order \(data\.columns=en,ko\)$"
    )
    with pytest.raises(ConfigError, match=message):
        read_train(write_table(tmp_path / "x.tsv", None), Languages("en", "fr", ("en", "ko")))


def test_record_keys_have_the_names_of_columns():
    assert pair_files.record_keys({"english": "a", "한국어": "b"}, EN_KO) == ("english", "한국어")
    assert pair_files.record_keys({"ko": "b", "en": "a", "id": 1}, EN_KO) == ("en", "ko")


def test_languages_are_guessed_from_a_header():
    assert pair_files.guess_languages(["번호", "한국어", "영어"]) == Languages("ko", "en")
    assert pair_files.guess_languages(["source", "target"]) == Languages("source", "target")
    assert pair_files.guess_languages(["a", "b"]) is None


def test_newlines_in_cells_become_spaces(tmp_path):
    (tmp_path / "x.csv").write_text('en,ko\n"one\ntwo","하나\n둘"\n', encoding="utf-8")
    assert read_train(tmp_path / "x.csv") == [("one two", "하나 둘")]


def test_a_spreadsheet_is_an_error(tmp_path):
    (tmp_path / "x.ods").write_bytes(b"PK")
    message = r"x\.ods: a spreadsheet; save it as \.xlsx or as CSV UTF-8 \(File, Save as\) and use that file$"
    with pytest.raises(DataError, match=message):
        read_train(tmp_path / "x.ods")


def test_only_blank_lines_are_an_error(tmp_path):
    (tmp_path / "x.tsv").write_text("\n \n")
    with pytest.raises(DataError, match=r"x\.tsv: contains only blank lines$"):
        read_train(tmp_path / "x.tsv")


def test_a_column_whose_name_occurs_twice_is_an_error(tmp_path):
    (tmp_path / "x.csv").write_text("en,ko,ko\na,b,c\n")
    with pytest.raises(DataError, match=r"x\.csv: 2 columns are named 'ko'; rename all but one, or delete them$"):
        read_train(tmp_path / "x.csv")


def test_a_header_with_equal_names_is_no_pair(tmp_path):
    (tmp_path / "x.csv").write_text("text,text,label\na film,b film,x\n" * 3)
    with pytest.raises(DataError, match=r"is its first line, 'text', 'text', 'label', a header\?"):
        read_train(tmp_path / "x.csv")


IDS = [("0", "a cat", "고양이"), ("1", "a dog", "개"), ("2", "a cow", "소")]
ID_COLUMN_ERROR = (
    r"x\.tsv: which of its 3 columns are en and ko\? There is no header, and column 1 holds only numbers or ids "
    r"\('0', …\), so it is not en; name the columns in order: data\.columns=other,en,ko, or give numbers: "
    r"data\.source=2 data\.target=3$"
)


def test_an_id_column_before_the_texts_is_an_error(tmp_path):
    path = write_table(tmp_path / "x.tsv", None, IDS)
    with pytest.raises(DataError, match=ID_COLUMN_ERROR):
        read_train(path)
    (finding,) = check(path)
    assert finding.level == "error" and finding.text.startswith("which of its 3 columns are en and ko?")
    for languages in (Languages("en", "ko", ("other", "en", "ko")), Languages("2", "3")):
        assert read_train(path, languages) == [row[1:] for row in IDS]
        assert check(path, languages) == []
    named = write_table(tmp_path / "y.tsv", "번호\t문장A\t문장B", IDS)
    with pytest.raises(
        DataError, match=r"data\.source='문장A' data\.target='문장B', or data\.header=true data\.columns=o"
    ):
        read_train(named)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [(f"s-{i}", "ein Hund", "un chien") for i in range(4)],
            r"only numbers or ids .* data\.columns=other,de,fr, or",
        ),
        ([("", "ein Hund", "un chien")] * 4, r"column 1 is empty, so it is not de; .* data\.source=2 data\.target=3$"),
    ],
)
def test_id_and_empty_columns_are_an_error_in_every_language(tmp_path, rows, message):
    with pytest.raises(DataError, match=message):
        read_train(write_table(tmp_path / "x.tsv", None, rows), Languages("de", "fr"))


def test_a_column_without_a_character_of_its_language_is_an_error(tmp_path):
    path = write_table(tmp_path / "x.tsv", None, [("a cat", "eng", "고양이"), ("a dog", "eng", "개")])
    message = (
        r"column 2 has no character of that language \('eng', …\), so it is not ko; .* data\.columns=en,other,ko, or"
    )
    with pytest.raises(DataError, match=message):
        read_train(path)


def test_columns_after_the_texts_are_ignored(tmp_path):
    path = write_table(tmp_path / "x.tsv", None, [(*row, "CC-BY") for row in ROWS])
    assert read_train(path) == ROWS and check(path) == []
    assert read_train(write_table(tmp_path / "y.tsv", None, [("1", "하나"), ("2", "둘")])) == [
        ("1", "하나"),
        ("2", "둘"),
    ]
