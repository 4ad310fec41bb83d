"""Generic code does not depend on single tasks: no string and no import in it names one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from regard.core.registry import registered_names

SOURCE = Path(__file__).parents[1] / "src" / "regard"
GENERIC = ("training", "inspection", "engines", "api", "serve", "cli")
# the table of verbs, the methods of a run named after them, and the settings that were renamed
ALLOWED = {"cli/predict_command.py", "cli/examples.py", "api/verb_methods.py", "training/migrations.py"}
PACKAGES = {  # words that only one task uses; language, embeddings and detection are ordinary words
    *("translation", "captioning", "classification", "tagging", "masked_language", "image_classification"),
    *("image_generation", "music", "recommendation", "speech_recognition"),
}


def task_names(code: str) -> set[str]:
    """Return the tasks that are named by a string literal (docstrings excluded) or by an import of their package."""
    tree, result = ast.parse(code), set()
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)]
    docstrings = {id(body[0].value) for body in bodies if body and isinstance(body[0], ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            result |= PACKAGES & set(re.findall(r"[a-z_]+", node.value))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("regard.tasks"):
            result |= set(registered_names("regard.tasks")) & {
                *str(node.module).split("."),
                *(alias.name for alias in node.names),
            }
    return result


def test_generic_code_names_no_task():
    paths = [path for package in GENERIC for path in sorted((SOURCE / package).rglob("*.py"))]
    codes = {path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    offenders = {name: task_names(code) for name, code in codes.items() if name not in ALLOWED}
    assert {name: tasks for name, tasks in offenders.items() if tasks} == {}


def test_a_task_name_is_detected():
    assert task_names('"""About translation."""\n\nx = 1  # music\n') == set()
    assert task_names('if task == "translation":\n    pass\n') == {"translation"}
    assert task_names("from regard.tasks.music import Config\n") == {"music"}
    assert task_names("from regard.tasks import captioning\n") == {"captioning"}
