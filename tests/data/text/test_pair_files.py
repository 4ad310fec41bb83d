"""Which columns are which: by name in any language, by number, by order; and what is asked instead of guessed."""

import pytest

from regard.core.errors import ConfigError, DataError
from regard.data.checks.pairs import check
from regard.data.text import pair_files
from regard.data.text.pair_files import Languages

EN_KO = Languages("en", "ko")
ROWS = [("Good morning.", "좋은 아침입니다."), ("Thank you very much.", "대단히 고마워요."), ("See you!", "또 봐요!")]


def write(path, header, rows=ROWS, between="\t"):
    lines = [header, *(between.join(row) for row in rows)] if header else [between.join(row) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def read(path, languages=EN_KO):
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
def test_a_header_is_known_by_what_people_call_languages(tmp_path, header):
    assert read(write(tmp_path / "x.tsv", header)) == ROWS
    assert check(tmp_path / "x.tsv") == []
    turned = "\t".join(header.split("\t")[::-1])
    assert read(write(tmp_path / "y.tsv", turned, [row[::-1] for row in ROWS])) == ROWS


def test_without_a_header_the_columns_are_source_and_target(tmp_path):
    path = write(tmp_path / "x.tsv", None, [row[::-1] for row in ROWS])
    assert read(path, Languages("ko", "en")) == [row[::-1] for row in ROWS]
    assert read(path, Languages("en", "ko", ("ko", "en"))) == ROWS
    assert read(path, Languages("2", "1")) == ROWS


def test_columns_that_stand_the_other_way_round_are_refused(tmp_path):
    path = write(tmp_path / "x.tsv", None, [row[::-1] for row in ROWS])
    message = (
        r"x\.tsv: its columns seem to stand the other way round: '좋은 아침입니다\.' / 'Good morning\.' is read as "
        r"en / ko; say data\.columns=ko,en, or data\.source=ko data\.target=en$"
    )
    with pytest.raises(DataError, match=message):
        read(path)
    path = write(tmp_path / "y.tsv", "source\ttarget", [row[::-1] for row in ROWS])
    with pytest.raises(DataError, match=r"is read as en / ko; say data\.source=ko data\.target=en$"):
        read(path)


def test_a_header_that_is_not_known_is_asked_about(tmp_path):
    path = write(tmp_path / "x.csv", "문장A,문장B", [("a good day", "좋은 날"), ("a bad day", "나쁜 날")], between=",")
    message = (
        r"x\.csv: is its first line, '문장A', '문장B', a header\? It does not name en and ko\. If it is: "
        r"data\.source='문장A' data\.target='문장B', or data\.header=true data\.columns=en,ko \(what its "
        r"columns are, in order\); if it is a pair: data\.header=false$"
    )
    with pytest.raises(DataError, match=message):
        read(path)
    pairs = [("a good day", "좋은 날"), ("a bad day", "나쁜 날")]
    assert read(path, Languages("문장A", "문장B")) == pairs
    assert read(path, Languages("en", "ko", ("en", "ko"), header=True)) == pairs
    assert read(path, Languages("en", "ko", header=False)) == [("문장A", "문장B"), *pairs]
    assert read(path, Languages("1", "2", header=True)) == pairs
    with pytest.raises(
        DataError, match=r"a header\? if it is: data\.header=true; if it is a pair: data\.header=false$"
    ):
        read(path, Languages("1", "2"))
    (found,) = check(path)
    assert found.level == "error" and "a header?" in found.text


def test_numbers_and_a_header_that_names_languages(tmp_path):
    assert read(write(tmp_path / "x.tsv", "영어\t한국어"), Languages("2", "1")) == [row[::-1] for row in ROWS]


def test_a_language_that_no_column_has(tmp_path):
    message = (
        r"x\.tsv: no language 'fr' among its columns en, ko; give its number \(data\.source=1\) or name the columns in "
        r"order \(data\.columns=en,ko\)$"
    )
    with pytest.raises(ConfigError, match=message):
        read(write(tmp_path / "x.tsv", None), Languages("en", "fr", ("en", "ko")))


def test_records_are_known_by_the_same_names():
    assert pair_files.record_keys({"english": "a", "한국어": "b"}, EN_KO) == ("english", "한국어")
    assert pair_files.record_keys({"ko": "b", "en": "a", "id": 1}, EN_KO) == ("en", "ko")


def test_languages_are_guessed_from_a_header():
    assert pair_files.guess_languages(["번호", "한국어", "영어"]) == Languages("ko", "en")
    assert pair_files.guess_languages(["source", "target"]) == Languages("source", "target")
    assert pair_files.guess_languages(["a", "b"]) is None


def test_line_ends_in_cells_are_spaces(tmp_path):
    (tmp_path / "x.csv").write_text('en,ko\n"one\ntwo","하나\n둘"\n', encoding="utf-8")
    assert read(tmp_path / "x.csv") == [("one two", "하나 둘")]


def test_a_workbook_is_told_to_be_saved_as_csv(tmp_path):
    (tmp_path / "x.xlsx").write_bytes(b"PK")
    message = r"x\.xlsx: a workbook of a spreadsheet; save it as CSV UTF-8 \(File, Save as\) and give that file$"
    with pytest.raises(DataError, match=message):
        read(tmp_path / "x.xlsx")


def test_nothing_but_blank_lines(tmp_path):
    (tmp_path / "x.tsv").write_text("\n \n")
    with pytest.raises(DataError, match=r"x\.tsv: there is nothing but blank lines in it$"):
        read(tmp_path / "x.tsv")


IDS = [("0", "a cat", "고양이"), ("1", "a dog", "개"), ("2", "a cow", "소")]
ASKED = (
    r"x\.tsv: which of its 3 columns are en and ko\? No header says it, and column 1 holds only numbers or ids "
    r"\('0', …\), so it is not en; say what they are, in order: data\.columns=other,en,ko, or give numbers: "
    r"data\.source=2 data\.target=3$"
)


def test_numbers_before_the_texts_are_asked_about(tmp_path):
    path = write(tmp_path / "x.tsv", None, IDS)
    with pytest.raises(DataError, match=ASKED):
        read(path)
    (found,) = check(path)
    assert found.level == "error" and found.text.startswith("which of its 3 columns are en and ko?")
    for said in (Languages("en", "ko", ("other", "en", "ko")), Languages("2", "3")):
        assert read(path, said) == [row[1:] for row in IDS]
        assert check(path, said) == []
    named = write(tmp_path / "y.tsv", "번호\t문장A\t문장B", IDS)
    with pytest.raises(
        DataError, match=r"data\.source='문장A' data\.target='문장B', or data\.header=true data\.columns=o"
    ):
        read(named)


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
def test_ids_and_empty_columns_are_asked_about_in_every_language(tmp_path, rows, message):
    with pytest.raises(DataError, match=message):
        read(write(tmp_path / "x.tsv", None, rows), Languages("de", "fr"))


def test_a_column_without_a_letter_of_its_language_is_asked_about(tmp_path):
    path = write(tmp_path / "x.tsv", None, [("a cat", "eng", "고양이"), ("a dog", "eng", "개")])
    message = r"column 2 has no letter of that language \('eng', …\), so it is not ko; .* data\.columns=en,other,ko, or"
    with pytest.raises(DataError, match=message):
        read(path)


def test_columns_behind_the_texts_are_left_alone(tmp_path):
    path = write(tmp_path / "x.tsv", None, [(*row, "CC-BY") for row in ROWS])
    assert read(path) == ROWS and check(path) == []
    assert read(write(tmp_path / "y.tsv", None, [("1", "하나"), ("2", "둘")])) == [("1", "하나"), ("2", "둘")]
