"""The allocator setting: only where there is glibc, and only when called."""

from __future__ import annotations

import platform

from regard.training import allocator


def test_it_takes_on_glibc_and_does_nothing_elsewhere(monkeypatch):
    assert allocator.prepare_process() == (platform.libc_ver()[0] == "glibc")
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert not allocator.prepare_process()
