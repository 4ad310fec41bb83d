"""The set-up commands, links and translations of the README and the pages."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from regard.core.pretrained_runs import pretrained_folders

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "README.ko.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def commands(page: Path) -> list[str]:
    """Return the lines of every ```bash block, with continued lines joined."""
    blocks = re.findall(r"^```bash\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_two_commands_set_everything_up():
    setups = [line for line in commands(ROOT / "README.md") if "pip install" in line]
    assert len(setups) == 2
    assert setups[0].endswith("regard demo") and "pytest" in setups[1]
    assert all(line.startswith("python3 -m venv .venv && ") and "-c constraints.txt" in line for line in setups)


def test_ci_runs_these_two_commands_literally():
    """`.ci/run` takes its commands from the README; this runs its extraction on the README."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    extract = re.findall(r"^readme_command\(\).*?^\}", script, flags=re.MULTILINE | re.DOTALL)[0]
    words = re.findall(r"^for word in (.*); do$", script, flags=re.MULTILINE)[0]
    process = subprocess.run(
        ["bash", "-c", f'{extract}\nfor word in {words}; do readme_command "$word"; done'],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    assert process.stdout.splitlines() == [line for line in commands(ROOT / "README.md") if "pip install" in line]


def test_ci_runs_all_other_lines_literally():
    """`.ci/run` calls bench/readme_commands.py, which runs every line that is not a set-up command, in order."""
    spec = importlib.util.spec_from_file_location("readme_commands", ROOT / "bench" / "readme_commands.py")
    readme_commands = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(readme_commands)
    lines = readme_commands.command_lines((ROOT / "README.md").read_text(encoding="utf-8"))
    written = [line for line in commands(ROOT / "README.md") if "pip install" not in line]
    assert len(lines) >= 25 and all(full.startswith(line) for line, full in zip(lines, written, strict=True))
    assert [line for line in lines if re.search(r"\b(RUN|FOLDER|INPUT|KEY|VALUE)\b|…", line)] == []  # no placeholders
    assert "bench/readme_commands.py" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_a_failing_line_of_the_readme_is_reported(tmp_path, capsys):
    spec = importlib.util.spec_from_file_location("readme_commands", ROOT / "bench" / "readme_commands.py")
    readme_commands = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(readme_commands)
    assert readme_commands.run_lines(["echo a > a.txt", "test -f a.txt"], tmp_path) is None
    assert readme_commands.run_lines(["true", "false", "touch never"], tmp_path) == "false"
    assert "FAILED  false" in capsys.readouterr().out and not (tmp_path / "never").exists()


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_link_to_a_file_exists(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"\w+:|#", link)]
    built = {f"live/{name}.html" for name in pretrained_folders()}  # pages of the site, made by bench/site_hooks.py
    missing = [link for link in links if link not in built and not (page.parent / link.split("#")[0]).exists()]
    assert missing == []


def test_constraints_pin_everything_exactly():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert "torch==2.13.0" in pins
    assert [line for line in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9A-Za-z.]*", line)] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = [
        *project["dependencies"],
        *(name for extra in project["optional-dependencies"].values() for name in extra),
    ]
    names = {re.split(r"[>\[]", name)[0].lower().replace("_", "-") for name in requirements} - {"regard"}
    assert names - {line.split("==")[0].lower().replace("_", "-") for line in pins} == set()


def test_the_worked_example_is_the_source_file():
    """A ```python block whose first line names a source file is the complete file."""
    blocks = re.findall(
        r"^```python\n# (src/\S+)\n(.*?)^```", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.M | re.S
    )
    assert [name for name, _ in blocks] == ["src/regard/attention/scores/cosine.py"]
    for name, code in blocks:
        assert code == (ROOT / name).read_text(encoding="utf-8")


def test_the_korean_readme_matches_the_english_one():
    english, korean = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.ko.md"))
    for parts in (headings, blocks, names_in_tables, links):
        assert parts(korean) == parts(english), f"README.ko.md: {parts.__name__} differ from README.md"


def headings(text: str) -> list[int]:
    """Return the level of each heading."""
    outside = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return [len(hashes) for hashes in re.findall(r"^(#+) ", outside, flags=re.MULTILINE)]


def blocks(text: str) -> list[str]:
    """Return every code block without its comments."""
    code = re.findall(r"^```(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return [re.sub(r"\s+#.*$", "", block, flags=re.MULTILINE) for block in code]


def names_in_tables(text: str) -> list[list[str]]:
    """Return the code spans in each row of the tables."""
    return [re.findall(r"`[^`]+`", line) for line in text.splitlines() if line.startswith("| ")]


def links(text: str) -> list[str]:
    """Return the linked pages."""
    return re.findall(r"^- \[[^]]+\]\(([^)]+)\)", text, flags=re.MULTILINE)
