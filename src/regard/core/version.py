"""The version, defined once: package metadata, the command line and run folders read it from here."""

from __future__ import annotations

__version__ = "0.3.0.dev0"
