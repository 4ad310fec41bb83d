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


def test_misaligned_files_are_reported_at_the_end_of_the_shorter(tmp_path):
    write(tmp_path, "train", GOOD)
    (tmp_path / "train.de").write_text("ja\n" * 7, encoding="utf-8")
    findings = check(tmp_path)
    assert ("error", "misaligned", "train.de", 7) in kinds(findings)
    assert "ends here, but train.en continues; lines must be aligned" in str(findings[-1])


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


def test_a_wrong_encoding_names_line_and_byte_and_the_check_continues(tmp_path):
    write(tmp_path, "train", [*GOOD, ("ok", "")])
    lines = (tmp_path / "train.en").read_bytes().splitlines(keepends=True)
    lines[4] = b"caf\xe9\n"
    (tmp_path / "train.en").write_bytes(b"".join(lines))
    findings = check(tmp_path)
    assert kinds(findings) == [
        ("error", "empty", "train.de", 31),
        ("error", "unreadable", "train.en", 0),
        ("error", "encoding", "train.en", 5),
    ]
    assert "not UTF-8 (byte 0xe9 in line 5), and the encoding cannot be detected; convert it" in findings[1].text
    assert f"iconv -f LATIN1 -t UTF-8 {tmp_path}/train.en > train.utf8.en" in findings[1].text
    assert "train.en:5: error: not UTF-8: byte 4 of the line is 0xe9" in str(findings[2])


def test_sentences_in_two_splits(tmp_path):
    write(tmp_path, "train", GOOD)
    write(tmp_path, "val", [("unseen", GOOD[3][1])])
    write(tmp_path, "test", [GOOD[5]])
    findings = check(tmp_path)
    assert kinds(findings) == [
        ("warning", "repeated", "train.de", 4),
        ("warning", "repeated", "train.de", 6),
        ("warning", "repeated", "train.en", 6),
    ]
    assert findings[0].text == "the same sentence is in val.de:1"


def test_repeats_within_a_split_are_not_a_finding(tmp_path):
    write(tmp_path, "train", GOOD + GOOD)
    write(tmp_path, "test", [("one", "eins")] * 2)
    assert check(tmp_path) == []


def test_decomposed_hangul(tmp_path):
    write(tmp_path, "train", [(unicodedata.normalize("NFD", "한국"), "Korea"), ("cafe\u0301", "Cafe"), ("a", "b")])
    findings = check(tmp_path)
    assert kinds(findings) == [("warning", "decomposed", "train.en", 1), ("warning", "decomposed", "train.en", 2)]
    assert "Hangul (NFD)" in findings[0].text and "Hangul" not in findings[1].text


def test_unusual_lengths(tmp_path):
    write(tmp_path, "train", [*GOOD, ("no", "x" * 90), ("y" * 400, "z" * 420)])
    findings = kinds(check(tmp_path))
    assert ("warning", "ratio", "train.en", 31) in findings
    assert {("warning", "long", "train.de", 32), ("warning", "long", "train.en", 32)} <= set(findings)
    assert len(findings) == 3


def test_compressed_tables(tmp_path):
    with gzip.open(tmp_path / "train.tsv.gz", "wt", encoding="utf-8") as file:
        file.write("".join(f"{s}\t{t}\tnote\n" for s, t in GOOD) + "alone\n")
    findings = check(tmp_path, Languages("en", "de"))
    assert kinds(findings) == [("error", "columns", "train.tsv.gz", 31)]


def test_json_lines(tmp_path):
    rows = [json.dumps({"en": s, "de": t}) for s, t in GOOD]
    rows += [json.dumps({"translation": {"en": "", "de": "x"}}), "[", "[1]", '{"en": "alone"}']
    (tmp_path / "x.jsonl").write_text("\n".join(rows), encoding="utf-8")
    assert kinds(check(tmp_path / "x.jsonl")) == [
        ("warning", "empty", "x.jsonl", 31),
        ("error", "columns", "x.jsonl", 32),
        ("error", "columns", "x.jsonl", 33),
        ("error", "columns", "x.jsonl", 34),
    ]


def test_an_empty_cell_of_a_table_is_left_out_as_in_training(tmp_path):
    rows = [*GOOD, ("A long sentence with many words in it.", "  "), ("", "")]
    (tmp_path / "x.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in rows), encoding="utf-8")
    one_side, both = check(tmp_path / "x.tsv", Languages("en", "de", header=False))
    assert (one_side.level, one_side.line) == ("warning", 31)
    assert one_side.text == "empty, but the other language has text; the pair is left out"
    assert (both.level, both.line, both.text) == ("warning", 32, "empty line")


def test_tables_in_subfolders_are_named(tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "pairs.csv").write_text("en,ko\na,b\n", encoding="utf-8")
    (finding,) = check(tmp_path)
    folder = tmp_path / "deep" / "er"
    assert finding.text == (
        f"has no files, and subfolders are not searched; give the path of {folder} or {folder / 'pairs.csv'}"
    )


def test_a_damaged_archive(tmp_path):
    (tmp_path / "train.tsv.gz").write_bytes(gzip.compress(b"a\tb\n" * 99)[:-9])
    assert [f.kind for f in check(tmp_path)] == ["unreadable"]


def test_missing_paths_are_an_error(tmp_path):
    with pytest.raises(DataError, match=r"nowhere: no such file or folder"):
        check(tmp_path / "nowhere")
    (finding,) = check(tmp_path)
    assert finding.text == "no file for language 'en'; there is none"


def test_real_data_has_no_errors(shared_data):
    findings = check(shared_data / "multi30k")
    assert [f for f in findings if f.level == "error"] == []
    assert {f.kind for f in findings} == {"repeated", "ratio"}  # one English validation sentence is in train


@pytest.mark.parametrize("rows", [GOOD[:1], GOOD[:1] * 50])
def test_too_few_pairs_are_the_same_error_as_in_training(tmp_path, rows):
    path = tmp_path / "x.tsv"
    path.write_text("".join(f"{s}\t{t}\n" for s, t in rows), encoding="utf-8")
    (finding,) = check(path)
    message = (
        "1 different text is too few to split into train, valid and test: at least 3 are needed, and equal texts count "
        "once; provide more, or a folder with one file per split"
    )
    assert str(finding) == f"{path}: error: {message}"
    with pytest.raises(DataError, match=f"x.tsv: {message}"):
        pair_sources.open_pairs(pair_sources.PairSource(path, "", DEFAULT_LANGUAGES, 1), count=1)
    path.write_text("".join(f"{s}\t{t}\n" for s, t in GOOD[:3]), encoding="utf-8")
    assert (
        check(path) == []
        and len(pair_sources.open_pairs(pair_sources.PairSource(path, "", DEFAULT_LANGUAGES, 1), count=1)) == 3
    )


def test_with_files_per_split_one_pair_is_sufficient(tmp_path):
    for split, pair in zip(("train", "valid"), GOOD, strict=False):
        write(tmp_path, split, [pair])
    assert check(tmp_path) == []
    (tmp_path / "train.de").rename(tmp_path / "test.de")
    (tmp_path / "train.en").rename(tmp_path / "test.en")
    (finding,) = check(tmp_path)
    assert finding.text == "there is no training split; the data has test, valid"


def test_only_blank_lines_are_an_error(tmp_path):
    (tmp_path / "x.tsv").write_text("\n \n", encoding="utf-8")
    (finding,) = check(tmp_path / "x.tsv")
    assert str(finding) == f"{tmp_path / 'x.tsv'}: error: contains only blank lines"


def test_one_of_two_aligned_files_is_sufficient(tmp_path):
    write(tmp_path, "two", [*GOOD[:3], ("alone", "")])
    for name in ("two.en", "two.de"):
        assert kinds(check(tmp_path / name)) == [("error", "empty", "two.de", 4)]
        assert pairs.detect_languages(tmp_path / name) == Languages("en", "de")
    assert first_pair(tmp_path / "two.de") == list(GOOD[0])


def test_a_missing_aligned_file_is_one_finding(tmp_path):
    write(tmp_path, "two", GOOD)
    (tmp_path / "two.de").unlink()
    (finding,) = check(tmp_path / "two.en")
    assert str(finding).startswith(f"{tmp_path / 'two.en'}: error: there is no two.ko next to it; add that file with")
    assert first_pair(tmp_path / "two.en") == []


def test_records_with_unknown_keys_are_the_same_error_as_in_training(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"a": "one", "b": "two"}\n', encoding="utf-8")
    (finding,) = check(tmp_path / "x.jsonl")
    assert finding.text == "the keys a, b do not name en and ko; set data.source=a data.target=b"


def test_plain_text_is_not_a_table_of_pairs(tmp_path):
    """There is one finding, not one for each line of the text."""
    path = tmp_path / "book.txt"
    path.write_text("Once upon a time\nthere was a line\n" * 30, encoding="utf-16")
    (finding,) = check(path)
    assert str(finding) == (
        f"{path}: error: no line has a tab, so it has no pairs; put the aligned lines of the other language into a "
        f"file next to it (x.en and x.ko), or to train on plain text: regard train language data.paths={path}"
    )
