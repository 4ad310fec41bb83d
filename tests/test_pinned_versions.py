"""The pinned versions: each has the hashes of its files."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
HASH = r" \\\n    --hash=sha256:[0-9a-f]{64}"


def test_every_pinned_version_has_a_hash():
    pinned = re.findall(r"^([\w.-]+==[^\s;]+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    hashed = (ROOT / "constraints-hashes.txt").read_text(encoding="utf-8")
    names = [version.lower().replace("_", "-") for version in pinned]  # normalized
    missing = [name for name in names if not re.search(f"^{re.escape(name)}{HASH}", hashed, re.MULTILINE)]
    assert len(pinned) > 100 and missing == []
