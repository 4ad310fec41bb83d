"""Tests that measured sections of pages state their command and date."""

import re
from pathlib import Path

import attacks
import pytest
from page_sections import put, section, shown_command

ROOT = Path(__file__).parents[2]
MEASURED = re.compile(r"Measured (on \d{4}-\d\d-\d\d )?with `python bench/\w+\.py[^`]*`\.$")


def test_a_section_is_replaced_with_its_command_and_date(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- x -->old<!-- end x -->\nafter\n")
    put(page, "x", "new\n", command="python bench/x.py")
    assert re.fullmatch(r"new\n\nMeasured on \d{4}-\d\d-\d\d with `python bench/x\.py`\.", section(page, "x").strip())
    assert re.fullmatch(r"before\n<!-- x -->[^<]*<!-- end x -->\nafter\n", page.read_text())
    with pytest.raises(SystemExit, match=r"page\.md: there is no <!-- y --> with <!-- end y --> after it"):
        section(page, "y")


def test_a_command_is_shown_without_files_of_the_machine():
    words = ["/a/bench/fuzz.py", "--page", "docs/p.md", "--seed", "1", "--folder=/tmp/x", "--only", "two words"]
    assert shown_command(words) == "python bench/fuzz.py --seed 1 --only 'two words'"


def test_every_figure_of_the_reliability_page_has_its_command():
    page = ROOT / "docs" / "reliability.md"
    names = re.findall(r"<!-- (\w+) -->", page.read_text(encoding="utf-8"))
    assert names == ["kills", "hostile", "served", "contract", "soak", "attacks"]
    sections = {name: section(page, name).strip() for name in names}
    figures = {name: text for name, text in sections.items() if any(map(str.isdigit, text))}
    assert [name for name, text in figures.items() if not MEASURED.search(text)] == []


def test_attacks_replace_only_the_rows_that_were_run():
    first, second, *_ = attacks.CASES
    old = f"| attack | trials |\n|---|---|\n| {second} | 3 | 0 | old |\n| a case of the past | 1 |\n"
    table = attacks.merged_table(old, {first: f"| {first} | 4 | 0 | new |"}).splitlines()
    assert table[2:] == [f"| {first} | 4 | 0 | new |", f"| {second} | 3 | 0 | old |"]
