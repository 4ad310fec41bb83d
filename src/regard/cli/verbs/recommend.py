"""`regard recommend`: users in, items for them out, with reasons."""

from __future__ import annotations

from regard.cli.arguments import USE
from regard.cli.asking import Asking, Verb, command

PANEL = USE
Command = Asking
run = command(Verb("recommend", "user", "items"), "Items for a user of the data, or for a new one, and why.")
