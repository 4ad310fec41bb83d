"""Regions of allowed positions."""

from __future__ import annotations

import torch

from regard.attention.mask_regions import Blocks, Raster, Window, intersect_windows

queries, keys = torch.arange(6)[:, None], torch.arange(6)


def test_a_query_may_always_attend_to_itself():
    for region in (
        Window(0, 0),
        Window(None, 0),
        Blocks(4, 0),
        Raster(2, 3, (1, 1), (0, 0)),
        Raster(2, 3, (2, 2), (1, 1)),
    ):
        assert region.allows(queries, keys).expand(6, 6).diagonal().all()


def test_a_window_without_limits_allows_everything():
    assert Window(None, None).allows(queries, keys).all()


def test_intersect_windows():
    assert intersect_windows(None, None) is None
    assert intersect_windows(Window(1, None), None) == intersect_windows(None, Window(1, None)) == (1, None)
    assert intersect_windows(Window(3, None), Window(1, 4)) == (1, 4)
    assert intersect_windows(Window(0, 2), Window(5, 0)) == (0, 0)
