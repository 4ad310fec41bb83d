"""The limit on image sizes applies inside the context only."""

from __future__ import annotations

import pytest

from regard.core.errors import DataError
from regard.core.input_limits import check_pixels, limit_pixels


def test_a_large_image_is_refused_by_its_header():
    check_pixels(10**6, 10**6, "a.png")
    with limit_pixels(max_pixels=100):
        check_pixels(10, 10, "a.png")
        with pytest.raises(DataError, match=r"a.png: 10x11 pixels; a request's image has at most 100: scale it down"):
            check_pixels(10, 11, "a.png")
    check_pixels(10, 11, "a.png")
