"""The benchmark's own modules, importable as they are in its processes."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
