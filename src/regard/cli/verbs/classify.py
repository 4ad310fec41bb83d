"""`regard classify`: texts or files in, their classes out."""

from __future__ import annotations

from regard.cli.arguments import USE
from regard.cli.asking import Asking, Verb, command

PANEL = USE
Command = Asking
run = command(Verb("classify"), "Classify texts or files, or standard input line by line.")
