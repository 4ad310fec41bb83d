"""`python -m regard` is the command `regard`."""

from __future__ import annotations

from regard.cli.main import main

main()
