"""The toys of these tests are found by their dotted names, here and in the processes the tests start."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
