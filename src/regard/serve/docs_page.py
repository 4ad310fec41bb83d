"""The documentation page of a service: one HTML file made of its OpenAPI document, without a script and without a
network."""

from __future__ import annotations

import html
import json
from typing import Any

from regard.inspection.static_page import static_page

STYLE = """
pre { overflow-x: auto; padding: 10px 12px; border: 1px solid var(--line); border-radius: 6px; font-size: 13px; }
table { border-collapse: collapse; font-size: 14px; }
td, th { text-align: left; vertical-align: top; padding: 3px 16px 3px 0; }
section.card { margin-bottom: 18px; }
"""
FACTS = """
<span class="facts"><a href="/">explorer</a> <a href="/openapi.json">openapi.json</a>
<a href="/metrics">metrics</a></span>
"""
MAX_EXAMPLE_CHARACTERS = 60  # letters of a file in an example that are shown


def docs_page(document: dict[str, Any], address: str) -> str:
    """An OpenAPI document, and where the service is -> the page."""
    sections = [
        _section(address, path, method, told)
        for path, each in document["paths"].items()
        for method, told in each.items()
    ]
    main = "\n".join(["<h1>What can be asked here</h1>", *sections])
    return static_page("regard: what can be asked", main, facts=FACTS, style=STYLE)


def _section(address: str, path: str, method: str, told: dict[str, Any]) -> str:
    parts = [f'<section class="card"><h2><code>{method.upper()} {html.escape(path)}</code></h2>']
    parts.append(f"<p>{html.escape(told['summary'])}</p>")
    content = told.get("requestBody", {}).get("content", {}).get("application/json")
    if content is not None:
        examples = [each["value"] for each in content.get("examples", {}).values()] or [content["example"]]
        parts += [_curl(address + path, example) for example in examples]
        bodies = content["schema"].get("oneOf", [content["schema"]])
        parts += [_table(body) for body in bodies]
    return "\n".join([*parts, "</section>"])


def _curl(url: str, example: Any) -> str:
    """A request as one types it; of a file only the beginning."""
    text = json.dumps(_short(example), ensure_ascii=False).replace("'", "\\u0027")
    line = f"curl {url} -H 'Content-Type: application/json' \\\n  -d '{text}'"
    return f"<pre>{html.escape(line)}</pre>"


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: f"{each[:MAX_EXAMPLE_CHARACTERS]}…"
            if key == "file" and len(each) > MAX_EXAMPLE_CHARACTERS
            else _short(each)
            for key, each in value.items()
        }
    return [_short(each) for each in value] if isinstance(value, list) else value


def _table(body: dict[str, Any]) -> str:
    rows = []
    for name, each in body["properties"].items():
        inside = each.get("properties")
        rows += [_row(f"{name}.{key}", inner) for key, inner in (inside or {}).items()]
        if inside is None:
            rows.append(_row(name, each, required=name in body.get("required", ())))
    title = f"<h3>{html.escape(body['title'])}</h3>" if "title" in body else ""
    return (
        f"{title}<table><tr><th>name</th><th>kind</th><th>unless told</th><th>meaning</th></tr>{''.join(rows)}</table>"
    )


def _row(name: str, told: dict[str, Any], *, required: bool = False) -> str:
    default = "needed" if required else json.dumps(told["default"], ensure_ascii=False) if "default" in told else ""
    cells = [f"<code>{html.escape(name)}</code>", html.escape(_kind(told)), html.escape(default)]
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in [*cells, html.escape(told.get('description', ''))])}</tr>"


def _kind(told: dict[str, Any]) -> str:
    """A schema in plain words."""
    if "enum" in told:
        return ", ".join(map(str, told["enum"]))
    if "$ref" in told:
        return "file"
    if "anyOf" in told:
        return " or ".join(filter(None, dict.fromkeys(_kind(each) for each in told["anyOf"])))
    words = {
        "integer": "whole number",
        "number": "number",
        "boolean": "true or false",
        "string": "text",
        "null": "none",
    }
    if told.get("type") == "array":
        return f"list of {_kind(told['items'])}" if isinstance(told.get("items"), dict) else "list"
    return words.get(str(told.get("type", "")), "")
