"""The package `my_lab` of CONTRIBUTING.md: the code blocks of the page as files, and the commands of its sections."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PAGE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^```(?:python|javascript)\n(?:#|//) (my_lab/\S+)\n(.*?)^```", PAGE, flags=re.M | re.S))
PACKAGE = "my_lab"


def commands() -> dict[str, list[str]]:
    """Section -> its command lines that start with `regard`."""
    sections = re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE, flags=re.M | re.S)
    lines = {name: "".join(re.findall(r"^```bash\n(.*?)^```", text, flags=re.M | re.S)) for name, text in sections}
    return {
        name: regard_lines
        for name, block in lines.items()
        if (regard_lines := [line for line in block.splitlines() if line.startswith("regard ")])
    }


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Write the files to a folder, and put it on the path of imports inside the block."""
    for name, code in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(code, encoding="utf-8")
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
            del sys.modules[name]
