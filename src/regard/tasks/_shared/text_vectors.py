"""Vectors of texts as predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.core.task import Prediction


def vector_prediction(vector: NDArray[Any]) -> Prediction:
    """Return a vector (d) as a prediction: its numbers as text, and as a list in `data["vector"]`."""
    numbers = [float(f"{x:.6g}") for x in np.asarray(vector, dtype=np.float64)]
    return Prediction(" ".join(map(str, numbers)), value=np.asarray(vector), data={"vector": numbers})
