"""Extract the translatable strings of the page: the keys of the table in i18n_ko.js."""

from __future__ import annotations

import json
import re

from regard.inspection.html_bundle import PAGE

TAG = re.compile(r"\bt`")
ENTRY = re.compile(r"^  (\"(?:[^\"\\]|\\.)*\"): (\"(?:[^\"\\]|\\.)*\"),$", re.MULTILINE)


def _template(code: str, start: int) -> tuple[str, int]:
    """Code after an opening backtick -> text with {0}, {1} … for its expressions, and the end of the template."""
    text, at, count = "", start, 0
    while code[at] != "`":
        if code.startswith("${", at):
            text, count, depth, at = text + f"{{{count}}}", count + 1, 1, at + 2
            while depth:
                if code[at] == "`":
                    at = _template(code, at + 1)[1]
                depth += {"{": 1, "}": -1}.get(code[at], 0)
                at += 1
        else:
            text, at = text + code[at], at + 1
    return text, at


def page_strings() -> dict[str, set[str]]:
    """Return every translatable string of the page, with the files that use it."""
    strings: dict[str, set[str]] = {}
    for path in sorted(PAGE.rglob("*.js")):
        code = path.read_text(encoding="utf-8")
        for match in TAG.finditer(code):
            strings.setdefault(_template(code, match.end())[0], set()).add(path.name)
    return strings


def without_strings(code: str) -> str:
    """Return code without comments, translatable strings, and expressions in other templates."""
    code = re.sub(r"^\s*//.*$", "", code, flags=re.MULTILINE)
    for match in reversed(list(TAG.finditer(code))):
        code = code[: match.start()] + "STRING" + code[_template(code, match.end())[1] + 1 :]
    while (shorter := re.sub(r"\$\{[^{}]*\}", "", code)) != code:
        code = shorter
    return code


def table(name: str) -> dict[str, str]:
    """Return a table of the page: English -> Korean. KOREAN is the table of all texts, which are in two files."""
    if name == "KOREAN":
        return table("KOREAN_SENTENCES") | table("KOREAN_PHRASES")
    files = ("i18n.js", "i18n_ko.js", "i18n_ko_phrases.js")
    code = "".join((PAGE / file).read_text(encoding="utf-8") for file in files)
    body = code.split(f"export const {name} = {{\n")[1].split("\n};")[0] + "\n"
    return {json.loads(key): json.loads(value) for key, value in ENTRY.findall(body)}
