import pytest

from regard.core.errors import DataError
from regard.data.checks import tagged


def write(path, *sentences):
    path.write_text("".join("".join(f"{line}\n" for line in sentence.split("|")) + "\n" for sentence in sentences))


def format_findings(findings):
    return [f"{finding.file.name}:{finding.line}: {finding.level}: {finding.text}" for finding in findings]


GOOD = ["Anna\tB-person|Kim\tI-person|sleeps\tO", "in\tO|Paris\tB-place"]


def test_good_data_has_no_findings(tmp_path):
    write(tmp_path / "train.conll", *GOOD)
    write(tmp_path / "test.conll", "Bob\tB-person|runs\tO|now\tO")
    assert tagged.check(tmp_path) == []


def test_all_malformed_lines_are_reported(tmp_path):
    write(tmp_path / "train.conll", *GOOD, "one|two\tO|x\tQ-a", "e\u0301\tO")
    assert format_findings(tagged.check(tmp_path)) == [
        "train.conll:8: error: expected a word and its tag in two columns, got 'one'",
        "train.conll:10: error: 'Q-a' is not a tag; expected O, or B- and I- with a type such as B-person",
        "train.conll:12: warning: decomposed characters (not NFC)",
    ]


def test_i_tags_without_a_start_and_mixed_sentences(tmp_path):
    write(tmp_path / "train.conll", *GOOD, "to\tO|Rome\tI-place", "to\tO|Rome\tS-place")
    assert format_findings(tagged.check(tmp_path)) == [
        "train.conll:9: error: 'I-place' continues an entity that has not started; "
        "the sentence follows IOB1, most of the file IOB2",
        "train.conll:12: error: 'S-place' is not a tag of IOB2; the sentence follows IOBES, most of the file IOB2",
    ]


def test_files_in_different_schemes(tmp_path):
    write(tmp_path / "train.conll", *GOOD)
    write(tmp_path / "valid.conll", "Bob\tB-person|Lee\tE-person", "in\tO|Rome\tS-place")
    assert format_findings(tagged.check(tmp_path)) == ["valid.conll:0: error: uses IOBES, but train.conll uses IOB2"]


def test_types_and_repeated_sentences(tmp_path):
    many = [f"Ann{i}\tB-person|x\tO" for i in range(60)]
    write(tmp_path / "train.conll", *many, "Bob\tB-persn|a\tO|b\tO")
    write(tmp_path / "valid.conll", "Bob\tB-animal|a\tO|b\tO")
    assert format_findings(tagged.check(tmp_path)) == [
        "train.conll:181: warning: type 'persn' (1 times); did you mean 'person' (60 times)?",
        "valid.conll:1: warning: the same sentence is in train.conll:181 (train)",
        "valid.conll:1: error: type 'animal' of valid is not in the training data",
    ]


def test_klp_and_klue_files(tmp_path):
    (tmp_path / "ner.train").write_text("; 가나\n$<가:PS>나\n\n; 가나\n$<가:PS>다\n")
    assert format_findings(tagged.check(tmp_path)) == [
        "ner.train:5: error: without its <name:TYPE> this is not the text of line 4, '; …'"
    ]
    path = tmp_path / "a.tsv"
    path.write_text("## 1\t가\n가\tB-LC\n나\tI-PS\n\n가\tB-PS\n")
    assert format_findings(tagged.check(path))[0].startswith("a.tsv:3: error: 'I-PS' continues an entity")


def test_missing_and_empty_files(tmp_path):
    with pytest.raises(DataError, match="no such file or folder"):
        tagged.check(tmp_path / "none")
    with pytest.raises(DataError, match="no files named after a split"):
        tagged.check(tmp_path)
    (tmp_path / "train.conll").write_text("")
    assert format_findings(tagged.check(tmp_path)) == ["train.conll:0: error: the file is empty"]


def test_too_few_sentences_to_split(tmp_path):
    write(tmp_path / "x.conll", "A\tB-p", "A\tB-p", "B\tO")
    (finding,) = tagged.check(tmp_path / "x.conll")
    assert finding.level == "error" and finding.text.startswith(
        "2 different texts are too few to split into train, valid"
    )
