"""Import paths of the benchmark tests: modules of bench/, and the browser helper of the inspection tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
sys.path.append(str(Path(__file__).parents[1] / "inspection"))
