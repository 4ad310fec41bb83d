"""`regard fill`: texts with gaps in, what belongs there out."""

from __future__ import annotations

from regard.cli.arguments import USE
from regard.cli.asking import Asking, Verb, command

PANEL = USE
Command = Asking
run = command(Verb("fill"), "Fill the gaps of texts, or of standard input line by line.")
