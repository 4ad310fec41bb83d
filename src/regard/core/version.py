"""The version, said once: the package metadata, the command line and every run folder take it from here."""

from __future__ import annotations

__version__ = "0.1.0"
