import unicodedata

import pytest

from regard.core.errors import DataError
from regard.data.checks import documents
from regard.data.text.document_files import Layout


def write(path, rows, header="label\ttext"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")


def format_findings(findings):
    return [f"{finding.file.name}:{finding.line}: {finding.level}: {finding.text}" for finding in findings]


def good(count, start=0):
    return [f"{'pos' if i % 2 else 'neg'}\tfilm number {i}" for i in range(start, start + count)]


def test_good_data_has_no_findings(tmp_path):
    write(tmp_path / "train.tsv", good(60))
    write(tmp_path / "test.tsv", good(20, start=60))
    assert documents.check(tmp_path) == []


def test_every_problem_is_reported_with_file_and_line(tmp_path):
    invalid_rows = [
        "psitive\ta",
        "pos\t ",
        f"neg\t{unicodedata.normalize('NFD', '좋다')}",
        "neg\tfilm number 1",
        "pos\tonce more",
    ]
    positive = [row.replace("pos", "positive") for row in good(300)]
    write(tmp_path / "train.tsv", [*positive, *(row.replace("pos\t", "positive\t") for row in invalid_rows)])
    write(tmp_path / "test.tsv", ["neg\tonce  more", "netural\tnew", "positive\tother", "neg\tyet another"])
    assert format_findings(documents.check(tmp_path)) == [
        "test.tsv:2: warning: the same document is in " + str(tmp_path / "train.tsv:306") + " (train)",
        "test.tsv:3: error: label 'netural' of test is not in the training data",
        "train.tsv:0: warning: unbalanced classes: 152 times 'neg', 1 times 'psitive' (3 classes)",
        "train.tsv:302: warning: label 'psitive' (1 times); did you mean 'positive' (152 times)?",
        "train.tsv:303: warning: the document is empty; training ignores it",
        "train.tsv:304: warning: decomposed characters (not NFC); composed when read",
        "train.tsv:305: warning: labelled neg here, positive in " + str(tmp_path / "train.tsv:3") + ": the same text",
    ]


def test_a_label_of_another_case_is_a_typing_mistake(tmp_path):
    write(tmp_path / "train.tsv", [*good(200), "POS\tloud"])
    typos = [text for text in format_findings(documents.check(tmp_path)) if "did you mean" in text]
    assert typos == ["train.tsv:202: warning: label 'POS' (1 times); did you mean 'pos' (100 times)?"]


def test_one_class_alone_is_an_error(tmp_path):
    write(tmp_path / "train.tsv", ["pos\ta", "pos\tb"])
    assert format_findings(documents.check(tmp_path)) == ["train.tsv:0: error: every document has the label 'pos'"]


def test_an_unreadable_line_is_a_finding(tmp_path):
    write(tmp_path / "train.tsv", ["pos\ta", "neg"])
    assert "train.tsv:3: error: 1 column, but column 2 is required" in format_findings(documents.check(tmp_path))


def test_columns_are_guessed(tmp_path):
    write(tmp_path / "named.tsv", good(4), header="Sentiment\tReview")
    assert documents.guess_layout(tmp_path / "named.tsv") == Layout()
    rows = [f"{i}\t{i % 2}\t{i % 10}\tthis is a long text, number {i}" for i in range(50)]
    write(tmp_path / "bare.tsv", rows[1:], header=rows[0])
    assert documents.guess_layout(tmp_path / "bare.tsv") == Layout("2", "4")
    write(tmp_path / "one.tsv", ["a", "b"], header="x")
    with pytest.raises(
        DataError, match=r"one\.tsv: one column; separate the columns by tabs, commas, semicolons or \|$"
    ):
        documents.guess_layout(tmp_path / "one.tsv")
    write(tmp_path / "a.jsonl", [], header="{}")
    assert documents.guess_layout(tmp_path / "a.jsonl") == Layout()


def test_folders_by_class_are_checked(tmp_path):
    for name, text in (("pos/1.txt", "good"), ("pos/2.txt", "fine"), ("neg/1.txt", ""), ("neg/3.txt", "good")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert format_findings(documents.check(tmp_path)) == [
        "1.txt:0: warning: the document is empty; training ignores it",
        f"1.txt:0: warning: labelled pos here, neg in {tmp_path}/neg/3.txt: the same text",
    ]


def test_too_few_documents_to_split(tmp_path):
    (tmp_path / "x.tsv").write_text("label\ttext\na\tgood\nb\tbad\n", encoding="utf-8")
    (finding,) = documents.check(tmp_path / "x.tsv")
    assert finding.level == "error" and finding.text.startswith(
        "2 different texts are too few to split into train, valid"
    )
    (tmp_path / "x.tsv").rename(tmp_path / "test.tsv")
    (finding,) = documents.check(tmp_path)
    assert finding.text == "there is no training split; the data has test"


def test_tags_of_words_are_no_labels_of_documents(tmp_path):
    rows = [f"{tag}\t{word}{i}" for i in range(4) for word, tag in (("Tom", "B-PER"), ("Smith", "I-PER"), ("is", "O"))]
    write(tmp_path / "train.tsv", rows)
    assert any(
        "the labels are tags of words; for tagging, write" in line
        for line in format_findings(documents.check(tmp_path))
    )
    write(tmp_path / "train.tsv", good(4))
    assert not any("tags of words" in line for line in format_findings(documents.check(tmp_path)))
