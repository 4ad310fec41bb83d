"""The public API: `import regard` exports exactly these names."""

from __future__ import annotations

import subprocess
import sys

import regard

PUBLIC = [
    "AttentionMap",
    "Client",
    "Mask",
    "Prediction",
    "RegardError",
    "Run",
    "__version__",
    "attend",
    "attention_map",
    "load",
    "push",
    "record",
    "resume",
    "score",
    "train",
]


def test_exported_names():
    assert sorted(regard.__all__) == sorted(PUBLIC)
    assert set(PUBLIC) <= set(dir(regard))


def test_every_name_can_be_imported_and_has_a_docstring():
    for name in PUBLIC:
        value = getattr(regard, name)
        assert isinstance(value, str) or value.__doc__, name


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(regard, "no_such_name")


def test_importing_regard_does_not_import_torch():
    code = "import sys, regard; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
