"""Two text files with aligned lines, found by the languages in their names or by their scripts."""

import pytest

from regard.core.errors import DataError
from regard.data.checks import detect_layout, report
from regard.data.text import pair_files, pair_groups
from regard.data.text.pair_files import DEFAULT_LANGUAGES, Languages

ROWS = [("Good morning.", "좋은 아침입니다."), ("Thank you.", "고마워요."), ("See you!", "또 봐요!")]


def write(folder, source, target, rows=ROWS):
    for side, name in enumerate((source, target)):
        (folder / name).write_text("".join(f"{row[side]}\n" for row in rows), encoding="utf-8")


@pytest.mark.parametrize(
    ("source", "target"),
    [("english.txt", "korean.txt"), ("en.txt", "ko.txt"), ("talk_영어.txt", "talk_한국어.txt"), ("b.txt", "a.txt")],
)
def test_two_text_files_are_read_as_pairs(tmp_path, source, target):
    write(tmp_path, source, target)
    (tmp_path / "README.txt").write_text("notes\n", encoding="utf-8")
    for path in (tmp_path, tmp_path / source, tmp_path / target):
        assert list(pair_files.read(path, DEFAULT_LANGUAGES)["train"]) == ROWS
        assert detect_layout.detect_layout(path) == "pairs"
    result = report.examine(tmp_path)
    assert result.findings == [] and result.command == f"regard train translation data.path={tmp_path}"
    assert result.lines[-2:] == [
        f"aligned lines: {source} (en), {target} (ko)",
        "first pair: Good morning. / 좋은 아침입니다.",
    ]


def test_splits_and_other_languages_by_name(tmp_path):
    rows = [("a dog", "ein Hund"), ("a cat", "eine Katze")]
    for split in ("train", "test"):
        write(tmp_path, f"{split}.english.txt", f"{split}.german.txt", rows)
    splits = pair_files.read(tmp_path, Languages("en", "de"))
    assert set(splits) == {"train", "test"} and list(splits["test"]) == rows
    assert report.examine(tmp_path).command.endswith("data.source=en data.target=de")


def test_unaligned_or_unknown_text_files_are_an_error_with_a_hint(tmp_path):
    write(tmp_path, "a.txt", "b.txt", [("one", "eins"), ("two", "zwei")])
    with pytest.raises(DataError, match=r"a\.txt and b\.txt have 2 lines each: rename them after their languages, for"):
        pair_files.read(tmp_path, DEFAULT_LANGUAGES)
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.txt and b\.txt have 1 and 2 lines, so they are not aligned"):
        pair_files.read(tmp_path, DEFAULT_LANGUAGES)
    assert detect_layout.detect_layout(tmp_path) == "text"


def test_one_pair_of_aligned_files_needs_no_split_name(tmp_path):
    write(tmp_path, "talk.en", "talk.ko")
    assert pair_groups.find_groups(tmp_path, ("en", "ko")).groups[0].split == "train"
    assert list(pair_files.read(tmp_path, DEFAULT_LANGUAGES)["train"]) == ROWS


def test_files_with_unequal_lines_are_an_error_that_names_both(tmp_path):
    write(tmp_path, "english.txt", "korean.txt")
    (tmp_path / "korean.txt").write_text("하나\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"korean\.txt ends after line 1 but .*english\.txt has 3 lines"):
        list(pair_files.read(tmp_path, DEFAULT_LANGUAGES)["train"])
