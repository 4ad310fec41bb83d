"""`regard tag`: texts in, a tag for every word out."""

from __future__ import annotations

from regard.cli.arguments import USE
from regard.cli.asking import Asking, Verb, command

PANEL = USE
Command = Asking
run = command(Verb("tag"), "Tag the words of texts, or of standard input line by line.")
