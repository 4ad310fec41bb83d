import gzip
import json
import unicodedata

import pytest

from regard.core.errors import DataError
from regard.data.checks import pairs
from regard.data.checks.pairs import check, first_pair
from regard.data.text import pair_sources
from regard.data.text.pair_files import DEFAULT_LANGUAGES, Languages

GOOD = [(f"the number {i} is here", f"die Zahl {i} ist hier da") for i in range(30)]


def write(folder, stem, rows):
    for side, code in enumerate(("en", "de")):
        (folder / f"{stem}.{code}").write_text("".join(f"{row[side]}\n" for row in rows), encoding="utf-8")


def kinds(findings):
    return [(f.level, f.kind, f.file.name, f.line) for f in findings]


def test_good_data_has_no_findings(tmp_path):
    write(tmp_path, "train", GOOD)
    write(tmp_path, "test", [("something else", "etwas anderes")])
    assert check(tmp_path) == []


def test_misaligned_files_say_where_they_part(tmp_path):
    write(tmp_path, "train", GOOD)
    (tmp_path / "train.de").write_text("ja\n" * 7, encoding="utf-8")
    found = check(tmp_path)
    assert ("error", "misaligned", "train.de", 7) in kinds(found)
    assert "ends here, but train.en goes on; lines must be aligned" in str(found[-1])


def test_empty_lines(tmp_path):
    write(tmp_path, "train", [*GOOD, ("", "Text"), (" ", "\t")])
    assert kinds(check(tmp_path)) == [
        ("warning", "empty", "train.de", 32),
        ("error", "empty", "train.en", 31),
        ("warning", "empty", "train.en", 32),
    ]


def test_an_empty_file(tmp_path):
    write(tmp_path, "train", GOOD)
    (tmp_path / "train.de").write_bytes(b"")
    assert ("error", "unreadable", "train.de", 0) in kinds(check(tmp_path))


def test_wrong_encoding_names_line_and_byte_and_goes_on(tmp_path):
    write(tmp_path, "train", [*GOOD, ("ok", "")])
    lines = (tmp_path / "train.en").read_bytes().splitlines(keepends=True)
    lines[4] = b"caf\xe9\n"
    (tmp_path / "train.en").write_bytes(b"".join(lines))
    found = check(tmp_path)
    assert kinds(found) == [
        ("error", "empty", "train.de", 31),
        ("error", "unreadable", "train.en", 0),
        ("error", "encoding", "train.en", 5),
    ]
    assert "not UTF-8 (byte 0xe9 in line 5), and which encoding it is cannot be told; convert it" in found[1].text
    assert f"iconv -f LATIN1 -t UTF-8 {tmp_path}/train.en > train.utf8.en" in found[1].text
    assert "train.en:5: error: not UTF-8: byte 4 of the line is 0xe9" in str(found[2])


def test_sentences_in_two_splits(tmp_path):
    write(tmp_path, "train", GOOD)
    write(tmp_path, "val", [("unseen", GOOD[3][1])])
    write(tmp_path, "test", [GOOD[5]])
    found = check(tmp_path)
    assert kinds(found) == [
        ("warning", "repeated", "train.de", 4),
        ("warning", "repeated", "train.de", 6),
        ("warning", "repeated", "train.en", 6),
    ]
    assert found[0].text == "the same sentence is in val.de:1"


def test_repeats_within_a_split_are_no_finding(tmp_path):
    write(tmp_path, "train", GOOD + GOOD)
    write(tmp_path, "test", [("one", "eins")] * 2)
    assert check(tmp_path) == []


def test_decomposed_hangul(tmp_path):
    write(tmp_path, "train", [(unicodedata.normalize("NFD", "한국"), "Korea"), ("cafe\u0301", "Cafe"), ("a", "b")])
    found = check(tmp_path)
    assert kinds(found) == [("warning", "decomposed", "train.en", 1), ("warning", "decomposed", "train.en", 2)]
    assert "Hangul (NFD)" in found[0].text and "Hangul" not in found[1].text


def test_odd_lengths(tmp_path):
    write(tmp_path, "train", [*GOOD, ("no", "x" * 90), ("y" * 400, "z" * 420)])
    found = kinds(check(tmp_path))
    assert ("warning", "ratio", "train.de", 31) in found
    assert {("warning", "long", "train.de", 32), ("warning", "long", "train.en", 32)} <= set(found)
    assert len(found) == 3


def test_tables_and_packed_files(tmp_path):
    with gzip.open(tmp_path / "train.tsv.gz", "wt", encoding="utf-8") as file:
        file.write("".join(f"{s}\t{t}\tnote\n" for s, t in GOOD) + "alone\n")
    found = check(tmp_path, Languages("en", "de"))
    assert kinds(found) == [("error", "columns", "train.tsv.gz", 31)]


def test_json_lines(tmp_path):
    rows = [json.dumps({"en": s, "de": t}) for s, t in GOOD]
    rows += [json.dumps({"translation": {"en": "", "de": "x"}}), "[", "[1]", '{"en": "alone"}']
    (tmp_path / "x.jsonl").write_text("\n".join(rows), encoding="utf-8")
    assert kinds(check(tmp_path / "x.jsonl")) == [
        ("error", "empty", "x.jsonl", 31),
        ("error", "columns", "x.jsonl", 32),
        ("error", "columns", "x.jsonl", 33),
        ("error", "columns", "x.jsonl", 34),
    ]


def test_a_damaged_archive(tmp_path):
    (tmp_path / "train.tsv.gz").write_bytes(gzip.compress(b"a\tb\n" * 99)[:-9])
    assert [f.kind for f in check(tmp_path)] == ["unreadable"]


def test_nothing_to_check_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"nowhere: no such file or folder"):
        check(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"no files named after a split \(train, valid, test\) to check"):
        check(tmp_path)


def test_real_data_has_no_errors(shared_data):
    found = check(shared_data / "multi30k")
    assert [f for f in found if f.level == "error"] == []
    assert {f.kind for f in found} == {"repeated", "ratio"}  # one English validation sentence is in train


@pytest.mark.parametrize("rows", [GOOD[:1], GOOD[:1] * 50])
def test_too_few_to_split_is_what_training_says_too(tmp_path, rows):
    path = tmp_path / "x.tsv"
    path.write_text("".join(f"{s}\t{t}\n" for s, t in rows), encoding="utf-8")
    (found,) = check(path)
    few = (
        "1 different text is too few to split into train, valid and test: at least 3 are needed, and equal ones count "
        "once; give more, or a folder with a file for each split"
    )
    assert str(found) == f"{path}: error: {few}"
    with pytest.raises(DataError, match=f"x.tsv: {few}"):
        pair_sources.open_pairs(pair_sources.PairSource(path, "", DEFAULT_LANGUAGES, 1), count=1)
    path.write_text("".join(f"{s}\t{t}\n" for s, t in GOOD[:3]), encoding="utf-8")
    assert (
        check(path) == []
        and len(pair_sources.open_pairs(pair_sources.PairSource(path, "", DEFAULT_LANGUAGES, 1), count=1)) == 3
    )


def test_with_files_for_the_splits_one_pair_is_enough(tmp_path):
    for split, pair in zip(("train", "valid"), GOOD, strict=False):
        write(tmp_path, split, [pair])
    assert check(tmp_path) == []
    (tmp_path / "train.de").rename(tmp_path / "test.de")
    (tmp_path / "train.en").rename(tmp_path / "test.en")
    (found,) = check(tmp_path)
    assert found.text == "there is no training split; the data has test, valid"


def test_nothing_but_blank_lines_is_an_error(tmp_path):
    (tmp_path / "x.tsv").write_text("\n \n", encoding="utf-8")
    (found,) = check(tmp_path / "x.tsv")
    assert str(found) == f"{tmp_path / 'x.tsv'}: error: there is nothing but blank lines in it"


def test_of_two_aligned_files_one_is_enough(tmp_path):
    write(tmp_path, "two", [*GOOD[:3], ("alone", "")])
    for name in ("two.en", "two.de"):
        assert kinds(check(tmp_path / name)) == [("error", "empty", "two.de", 4)]
        assert pairs.detect_languages(tmp_path / name) == Languages("en", "de")
    assert first_pair(tmp_path / "two.de") == list(GOOD[0])


def test_one_aligned_file_alone_is_one_finding(tmp_path):
    write(tmp_path, "two", GOOD)
    (tmp_path / "two.de").unlink()
    (found,) = check(tmp_path / "two.en")
    assert str(found).startswith(f"{tmp_path / 'two.en'}: error: two.ko is not beside it; put the lines of ko there")
    assert first_pair(tmp_path / "two.en") == []


def test_records_with_other_names_are_what_training_says(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"a": "one", "b": "two"}\n', encoding="utf-8")
    (found,) = check(tmp_path / "x.jsonl")
    assert found.text == "no language 'en'; name both: data.source=… data.target=…; known: a, b"


def test_plain_text_is_no_table_of_pairs(tmp_path):
    """One line, and not one for each line of the text."""
    path = tmp_path / "book.txt"
    path.write_text("Once upon a time\nthere was a line\n" * 30, encoding="utf-16")
    (found,) = check(path)
    assert str(found) == (
        f"{path}: error: no line has a tab, so there are no pairs in it; plain text is trained on by: regard train "
        f"language data.paths={path}"
    )
