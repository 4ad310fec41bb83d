"""`regard generate`: something new, as files."""

from __future__ import annotations

from regard.cli.arguments import USE
from regard.cli.asking import Asking, Verb, command

PANEL = USE
Command = Asking
run = command(Verb("generate", numbered=True), "Make something new, from nothing or from what is given.")
