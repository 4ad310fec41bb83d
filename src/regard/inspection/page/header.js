// Header of the page: input, output, facts about the model, and the switch between light and dark.

import { make, formatNumber, percent, select } from "./dom.js";
import { currentTheme } from "./color.js";
import { inputImage, resultOf } from "./result.js";
import { optionForm } from "./option_form.js";
import { tokenLine } from "./tokens.js";
import { translateRemark, translateTerm, t } from "./i18n.js";

function switchTheme(page) {
  const next = currentTheme() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = document.documentElement.dataset.chosen = next;
  try {
    localStorage.setItem("regard-theme", next);
  } catch {
    // Used now, but not stored for the next visit.
  }
  page.draw();
}

function facts(data) {
  const items = [["model", data.model], ["task", data.task], ...Object.entries(data.facts || {})];
  const text = (name, value) => (name === "seconds" ? t`${value} s` : typeof value === "number" ? value.toLocaleString("en") : String(value));
  return make("dl", { class: "facts" }, items.filter(([, value]) => value).map(([name, value]) =>
    make("div", {}, make("dt", {}, name === "seconds" ? t`predicted in` : translateTerm(name)), make("dd", {}, text(name, value)))));
}

function runPicker(page) {
  if (page.runs.length < 2 || page.server) return null;
  return make("label", { class: "choice" }, make("span", { class: "choice-label" }, t`Run`),
    make("select", { "data-key": "run", onchange: (event) => page.change({ run: Number(event.target.value), map: undefined, row: undefined, head: undefined }) },
      page.runs.map((run, i) => make("option", { value: i, selected: run === page.data }, run.facts?.run || run.model))));
}

// Return the address of another run of the server; a text input is kept.
export function servedAddress(page, run) {
  const text = page.raw.opens ? undefined : page.state.text;
  return `/?run=${encodeURIComponent(run)}${text === undefined ? "" : `#${new URLSearchParams({ text })}`}`;
}

// A server may have several runs; choosing another run opens another page.
function servedPicker(page) {
  if (!page.raw.choices) return null;
  return make("label", { class: "choice" }, make("span", { class: "choice-label" }, t`Run`),
    make("select", { "data-key": "served", onchange: (event) => location.assign(servedAddress(page, event.target.value)) },
      page.raw.choices.map((choice) => make("option", { value: choice.name, selected: choice.shown }, choice.name))));
}

export const EMPTY = t`(empty)`;
const MAX_INPUT_LINES = 6; // lines of the input that are visible at the same time

const errorMessage = (page) => (page.server.error ? make("p", { class: "wrong", role: "alert" }, page.server.error) : null);

// If inputs are files, the user's file is uploaded completely; the server does not open files by name. Some models also generate without one.
function fileForm(page) {
  const box = make("input", { type: "file", class: "ask", accept: page.raw.opens.join(","), "aria-label": t`Input`, "data-key": "ask", disabled: page.server.busy,
    onchange: () => { if (box.files.length) page.server.send(box.files[0]); } });
  const generate = page.raw.generates ? make("button", { type: "button", class: "action", "data-key": "generate", disabled: page.server.busy, onclick: () => page.server.run("") }, t`Generate`) : null;
  return make("form", { class: "asking" }, box, generate, page.server.displayed.file ? make("span", { class: "quiet" }, t`shown: ${page.server.displayed.text}`) : null, errorMessage(page));
}

// Typed text is kept until it has been inspected, even if the page is redrawn. Enter submits, Shift+Enter inserts a line break.
function textForm(page) {
  const draft = page.draft ?? page.raw.text;
  const box = make("textarea", { class: "ask", name: "text", rows: Math.min(MAX_INPUT_LINES, draft.split("\n").length), "aria-label": t`Input`, "data-key": "ask", autocomplete: "off",
    oninput: () => { page.draft = box.value; },
    onkeydown: (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      box.form.requestSubmit();
    } }, draft);
  const submit = (event) => {
    event.preventDefault();
    const text = page.draft ?? page.raw.text; // not the value of the textarea, which changes line endings
    if (text.trim()) page.server.run(text);
    else page.server.showError(t`The input is empty; enter a text.`);
  };
  return make("form", { class: "asking", onsubmit: submit }, box, make("button", { type: "submit", class: "action", disabled: page.server.busy }, t`Inspect`), errorMessage(page));
}

// The probability of an output; of a long output, whose probability is nearly zero, the mean probability of a token.
export function chance({ score, tokens = [] }) {
  return Math.exp(score) >= 0.0005 || tokens.length < 2 ? percent(score) : t`${percent(score / tokens.length)} per token`;
}

function summary(page, compared) {
  const { data } = page;
  const line = (kind, label, value, extra) => value !== undefined
    ? make("p", { class: `spoken ${kind}` }, make("span", { class: "spoken-label" }, label), make("span", { class: "spoken-text" }, value || make("span", { class: "quiet" }, EMPTY)), extra) : null;
  const result = compared ? null : resultOf(data);
  const [best] = data.outputs || [];
  const remarks = compared ? [] : data.remarks || [];
  return make("div", { class: "sentences" },
    line("input", t`input`, data.title, inputImage(data)),
    ...remarks.map((remark) => make("p", { class: "notice remark", role: "note" }, translateRemark(remark))),
    line("output", t`output`, result?.content, result?.isScored && Number.isFinite(best.score) ? make("span", { class: "figure quiet", title: t`probability of the output, log p ${formatNumber(best.score, 3)}` }, ` ${chance(best)}`) : null),
    result?.isText && !page.view?.drawsTokens ? tokenLine(best) : null);
}

// Other runs of the server with the same task: the displayed input is shown side by side.
function comparePicker(page) {
  const others = (page.raw.choices || []).filter((choice) => !choice.shown && choice.comparable);
  if (!page.server || !others.length) return null;
  const [chosen] = page.server.compared;
  const pick = (name) => page.server.compareWith(others.filter((choice) => choice.name === name).map((choice) => ({ name, base: choice.base })));
  return select(t`Compare with`, [{ key: "", label: t`no run` }, ...others.map((choice) => ({ key: choice.name, label: choice.name }))], chosen?.name ?? "", pick);
}

export function renderHeader(page) {
  const dark = currentTheme() === "dark";
  const compared = page.view?.name === "compare"; // each run then shows its own facts and output
  return [
    make("div", { class: "bar" },
      make("span", { class: "brand", "aria-label": "regard" }, make("span", { class: "eye", "aria-hidden": "true" }), "regard"),
      compared ? make("span", { class: "facts" }, make("span", { class: "quiet" }, t`${page.runs.length} runs`)) : facts(page.data), compared ? null : runPicker(page), servedPicker(page), comparePicker(page),
      make("button", { type: "button", class: "tool", "data-key": "theme", "aria-label": dark ? t`Use light colors` : t`Use dark colors`,
        title: dark ? t`Light` : t`Dark`, onclick: () => switchTheme(page) }, dark ? "☀" : "☾")),
    page.server ? (page.raw.opens ? fileForm(page) : textForm(page)) : "",
    page.server ? optionForm(page) ?? "" : "",
    make("h1", { class: "visually-hidden" }, t`Attention of ${page.data.model} on: ${page.data.title}`),
    summary(page, compared),
  ];
}
