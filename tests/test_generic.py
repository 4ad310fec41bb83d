"""Generic code knows no task by name: whatever is a task's own is asked of the task."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

from regard.core.registry import names

SOURCE = Path(__file__).parents[1] / "src" / "regard"
GENERIC = ("core", "attention", "layers", "decoding", "training", "inspection", "api", "serve", "cli")
OWN = {  # the words of one task
    "translation": "translation translations translate translated translates translator bleu",
    "music": "music musical midi composer soprano harmonise chorale chorales pianoroll",
    "classification": "classification",
    "tagging": "tagging",
    # ordinary words, which generic code may use; a task is never asked for by these names there
    "language": "",
    "embeddings": "",
    "images": "",
}
# Where a verb may be named: the file of the verb, and the method of a run that is the verb.
VERBS = ("cli/verbs/", "api/verbs.py")
# The sizes of a kind of data say what kind that is; engines of others have names of their own.
THEIRS = {"translator", "translate"}
ALLOWED = {
    "core/data_specs.py": {"music", "composer"},
    "engines/ctranslate2/models.py": THEIRS,
    "engines/ctranslate2/search.py": THEIRS,
    "convert/architectures/vit.py": {"classification"},
}


def words(path: Path) -> set[str]:
    """The words in a file's code: names and strings, but no comments and docstrings."""
    found: set[str] = set()
    before = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        docstring = token.type == tokenize.STRING and before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.ENCODING)
        if token.type in (tokenize.NAME, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1)) and not docstring:
            parts = re.split(r"[^A-Za-z]+|(?<=[a-z])(?=[A-Z])", token.string)
            found |= {part.lower() for part in parts}
        if token.type not in (tokenize.NL, tokenize.COMMENT):
            before = token.type
    return found


def forbidden() -> set[str]:
    listed = {name for name in names("regard.tasks") if name not in OWN}
    return listed | {word for many in OWN.values() for word in many.split()}


FILES = sorted(path for package in GENERIC for path in (SOURCE / package).rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_generic_code_names_no_task(path):
    name = path.relative_to(SOURCE).as_posix()
    if not name.startswith(VERBS):
        assert words(path) & forbidden() - ALLOWED.get(name, set()) == set()


def test_a_named_task_is_seen(tmp_path):
    path = tmp_path / "x.py"
    path.write_text('"""About translation."""\n\nx = 1  # music\n', encoding="utf-8")
    assert words(path) & forbidden() == set()
    path.write_text('if task == "translation":\n    midi = readTranslations()\n', encoding="utf-8")
    assert words(path) & forbidden() == {"translation", "midi", "translations"}
