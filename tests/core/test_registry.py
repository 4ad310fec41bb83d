"""Modules are registered by file name."""

from __future__ import annotations

import sys

import pytest

from regard.core.errors import ConfigError
from regard.core.registry import find, registered_names


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with two public modules, one of which cannot be imported, and a private one."""
    folder = tmp_path / "my_lab_things"
    folder.mkdir()
    for name, code in {"__init__": "", "good": "x = 1", "broken": "import surely_not_there", "_private": ""}.items():
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "my_lab_things"
    for module in [name for name in sys.modules if name.startswith("my_lab_things")]:
        del sys.modules[module]


def test_listing_imports_nothing(package):
    assert registered_names(package) == ["broken", "good"]
    assert f"{package}.good" not in sys.modules


def test_find_by_name_or_by_dotted_name(package):
    assert find(package, "good").x == 1
    assert find("regard.attention.scores", "my_lab_things.good").x == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("goood", "unknown my lab thing 'goood'; did you mean 'good'?"),
        ("zzz", "known: broken, good"),
        ("_private", "unknown my lab thing '_private'"),
        ("no_lab.model", "no module 'no_lab.model'; is its folder on PYTHONPATH?"),
    ],
)
def test_unknown_names(package, name, text):
    with pytest.raises(ConfigError) as error:
        find(package, name)
    assert text in str(error.value)


def test_a_missing_dependency_of_a_module_is_reported(package):
    """The name itself is valid, so the original error is raised."""
    for name in ("broken", "my_lab_things.broken"):
        with pytest.raises(ModuleNotFoundError, match="surely_not_there"):
            find(package, name)
