"""Settings are read from source code without importing it."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from regard.core.describe import Description, Setting, describe, read_constant, source_path, summary
from regard.core.errors import ConfigError
from regard.core.registry import find, registered_names

CODE = '''"""Summary in one line.

More.
"""


class Config:
    """Choices.

    More."""

    layers: int = 6  # how deep
    share: bool = (
        True  # one table for both
    )
    name: str
    rates: tuple[float, ...] = (0.1, 0.2)

    def method(self) -> None: ...
'''


def test_names_types_defaults_and_comments(tmp_path):
    path = tmp_path / "x.py"
    path.write_text(CODE, encoding="utf-8")
    assert summary(path) == "Summary in one line."
    assert describe(path, "Config") == Description(
        "Choices.",
        (
            Setting("layers", "int", "6", "how deep"),
            Setting("share", "bool", "True", "one table for both"),
            Setting("name", "str", "", ""),
            Setting("rates", "tuple[float, ...]", "(0.1, 0.2)", ""),
        ),
    )
    assert describe(path, "Options") is None


@pytest.mark.parametrize("package", ["regard.models", "regard.tasks", "regard.decoding.strategies"])
def test_descriptions_match_the_dataclasses(package):
    for name in registered_names(package):
        described = describe(source_path(package, name), "Config")
        fields = dataclasses.fields(find(package, name).Config)
        assert described is not None
        assert [setting.name for setting in described.settings] == [field.name for field in fields]


def test_dotted_names_and_unknown_names():
    assert source_path("regard.models", "regard.core.describe").name == "describe.py"
    with pytest.raises(ConfigError, match=r"^no module 'regard\.models\.nonsense' to describe$"):
        source_path("regard.models", "nonsense")
    with pytest.raises(ConfigError, match=r"^no module 'nowhere\.model' to describe$"):
        source_path("regard.models", "nowhere.model")


def test_constants_are_read_without_importing(tmp_path):
    path = tmp_path / "x.py"
    path.write_text(
        'VERB = "sort"\nDEFAULTS: dict = {"steps": 3}\nPRESETS = {"base": Config(dim=8)}\n', encoding="utf-8"
    )
    assert read_constant(path, "VERB") == "sort" and read_constant(path, "DEFAULTS") == {"steps": 3}
    assert read_constant(path, "PRESETS") == {"base": "Config(dim=8)"}
    assert read_constant(path, "OTHER") is None


def test_listing_and_describing_import_no_torch():
    code = (
        "import sys; from regard.core.describe import read_constant, source_path\n"
        "from regard.core.registry import registered_names\n"
        "for package in ('regard.tasks', 'regard.models', 'regard.decoding.strategies', 'regard.attention.scores'):\n"
        "    assert [read_constant(source_path(package, name), 'VERB') for name in registered_names(package)]\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_an_imported_dataclass_is_described_from_its_source_file(tmp_path):
    path = tmp_path / "x.py"
    path.write_text("from regard.models._hierarchical_encoder import SMALL, Config\n", encoding="utf-8")
    described = describe(path, "Config")
    assert described is not None and described.settings[0][:3] == ("embedding", "int", "100")
    assert describe(path, "Options") is None


def test_a_sentence_of_two_lines_is_not_cut(tmp_path):
    path = tmp_path / "x.py"
    path.write_text('"""A sentence that goes on\nin the next line.\n\nDetails.\n"""\n', encoding="utf-8")
    assert summary(path) == "A sentence that goes on in the next line."
