"""A missing extra is reported with the command that installs it."""

from __future__ import annotations

import math
import sys

import pytest

from regard.core.errors import MissingExtra
from regard.core.extras import require


def test_installed_module():
    assert require("math", extra="plots") is math


def test_missing_module():
    with pytest.raises(MissingExtra) as error:
        require("surely_not_there.part", extra="plots")
    assert str(error.value) == "surely_not_there.part is not installed; run: pip install 'regard[plots]'"


def test_missing_dependency_of_an_installed_module(tmp_path, monkeypatch):
    (tmp_path / "broken_extra.py").write_text("import surely_not_there", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="surely_not_there"):
        require("broken_extra", extra="plots")
    sys.modules.pop("broken_extra", None)
