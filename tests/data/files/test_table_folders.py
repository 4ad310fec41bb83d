"""Folders with several tables: joined if they have the same columns, refused otherwise, never dropped silently."""

import pytest

from regard.core.errors import DataError
from regard.data.checks import pairs as check_pairs
from regard.data.files import table_folders
from regard.data.text import document_files, pair_files, tagged_files
from regard.data.text.document_files import Layout
from regard.data.text.pair_files import DEFAULT_LANGUAGES

PAIRS = [(f"Sentence number {i}.", f"문장 번호 {i}입니다.") for i in range(20)]


def write_csv(path, header, rows):
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text("\n".join(",".join(row) for row in [header, *rows]) + "\n", encoding="utf-8")


def test_pairs_of_several_tables_are_joined_and_reported(tmp_path):
    write_csv(tmp_path / "part1.csv", ("en", "ko"), PAIRS[:10])
    write_csv(tmp_path / "part2.csv", ("ko", "en"), [(t, s) for s, t in PAIRS[10:]])
    pairs = pair_files.read(tmp_path, DEFAULT_LANGUAGES)["train"]
    assert list(pairs) == PAIRS
    assert pairs.remarks == (f"{tmp_path}: 2 files are joined: part1.csv, part2.csv",)
    assert [file.name for file in pairs.files] == ["part1.csv", "part2.csv"]


def test_documents_of_several_tables_are_joined(tmp_path):
    for part in (1, 2):
        write_csv(tmp_path / f"reviews{part}.csv", ("label", "text"), [("pos", f"good {part}"), ("neg", f"bad {part}")])
    documents = document_files.read(tmp_path, Layout())["train"]
    assert [document.text for document in documents] == ["good 1", "bad 1", "good 2", "bad 2"]
    assert "2 files are joined" in documents.remarks[0]


def test_tables_with_different_columns_are_refused(tmp_path):
    write_csv(tmp_path / "chat.csv", ("Q", "A"), [("안녕", "네")] * 3)
    write_csv(tmp_path / "pairs.csv", ("en", "ko"), PAIRS)
    message = r"2 tables with different columns \(chat.csv: Q, A; pairs.csv: en, ko\); give the path of one table"
    for read, options in ((pair_files.read, DEFAULT_LANGUAGES), (document_files.read, Layout())):
        with pytest.raises(DataError, match=message):
            read(tmp_path, options)


def test_training_files_are_joined_and_a_second_test_set_is_not_read(tmp_path):
    for name in ("train1", "train2", "test_2016", "test_2017"):
        write_csv(tmp_path / f"{name}.csv", ("en", "ko"), [(name, "번역")])
    write_csv(tmp_path / "notes.csv", ("en", "ko"), [("note", "메모")])
    splits = pair_files.read(tmp_path, DEFAULT_LANGUAGES)
    assert [source for source, _ in splits["train"]] == ["train1", "train2"]
    assert [source for source, _ in splits["test"]] == ["test_2016"]
    assert splits["train"].remarks == (
        f"{tmp_path}: 2 files are joined: train1.csv, train2.csv",
        f"{tmp_path}: not read: notes.csv, test_2017.csv; one file per split is read",
    )


def test_tagged_files_are_joined(tmp_path):
    for name in ("train_a.conll", "train_b.conll"):
        (tmp_path / name).write_text(f"{name} B-person\n\n", encoding="utf-8")
    sentences = tagged_files.read(tmp_path)["train"]
    assert [sentence.text for sentence in sentences] == ["train_a.conll", "train_b.conll"]
    assert "2 files are joined" in sentences.remarks[0]


def test_files_named_after_splits(tmp_path):
    for name in ("train.tsv", "ner.dev.gz", "test.first_half.conll.xz", "README.md", "train.backup.json"):
        (tmp_path / name).write_text("x")
    names = {file.name: table_folders.file_split(file) for file in table_folders.visible_files(tmp_path)}
    assert names == {
        "train.tsv": "train",
        "ner.dev.gz": "valid",
        "test.first_half.conll.xz": "test",
        "README.md": None,
        "train.backup.json": None,
    }


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl"])
def test_a_column_of_splits_is_reported_as_not_read(tmp_path, name):
    path = tmp_path / name
    if name == "x.csv":
        write_csv(path, ("en", "ko", "Split"), [(*pair, "test") for pair in PAIRS])
    else:
        path.write_text("".join('{"en": "a", "ko": "b", "Split": "test"}\n' for _ in PAIRS), encoding="utf-8")
    suffix = path.suffix
    remark = (
        f"{path}: not read: its column 'Split'; a part is held out by chance instead; to use it, write a file for each "
        f"split (train{suffix}, valid{suffix}, test{suffix})"
    )
    assert pair_files.read(path, DEFAULT_LANGUAGES)["train"].remarks == (remark,)
    assert document_files.read(path, Layout("ko", "en"))["train"].remarks == (remark,)
    (finding,) = (finding for finding in check_pairs.check(path) if finding.kind == "unread")
    assert finding.text.startswith("not read: its column 'Split'")


def test_a_table_without_such_a_column_has_no_remark(tmp_path):
    write_csv(tmp_path / "x.csv", ("en", "ko"), PAIRS)
    assert table_folders.split_column_remarks(tmp_path / "x.csv") == ()
    assert table_folders.split_column_remarks(tmp_path / "missing.csv") == ()
