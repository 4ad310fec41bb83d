"""`regard translate`: texts in, translations out, line by line and in order."""

from __future__ import annotations

from regard.cli.arguments import USE
from regard.cli.asking import Asking, Verb, command

PANEL = USE
Command = Asking
run = command(Verb("translate", "source", "translations"), "Translate texts, or standard input line by line.")
