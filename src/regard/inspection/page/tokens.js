// The tokens of an answer, each with its probability and what else might have stood in its place.

import { make, number, visible } from "./dom.js";
import { say } from "./i18n.js";

const MOST = 80; // tokens beyond which the line would be a page
const percent = (score) => `${number(100 * Math.exp(score), score > -0.7 ? 0 : 1)}%`;

// The likeliest tokens of one place as bars; the one that was chosen is marked, and added where it is not among them.
export function alternatives(token) {
  const all = token.alternatives.some(([text]) => text === token.text) ? token.alternatives : [...token.alternatives, [token.text, token.score]];
  return make("ol", { class: "shares alternatives" }, all.map(([text, score]) => make("li", { class: `share ${text === token.text ? "chosen" : ""}` },
    make("span", { class: "share-label" }, visible(text)),
    make("span", { class: "share-track" }, make("span", { class: "share-bar", style: { width: `${100 * Math.exp(score)}%` } })),
    make("span", { class: "figure share-value", title: `log p ${number(score, 3)}` }, percent(score)))));
}

// Others than the chosen one, in words.
export function otherwise(token) {
  const others = (token?.alternatives || []).filter(([text]) => text !== token.text).slice(0, 3);
  return others.map(([text, score]) => `${visible(text)} ${percent(score)}`).join(" · ");
}

// Above its token, so that it never lies over the tabs; where the screen begins too near, beside it.
function place(panel, button, line) {
  const top = button.offsetTop - panel.offsetHeight - 4;
  const least = 4 - line.getBoundingClientRect().top;
  const right = button.offsetLeft + button.offsetWidth + 8;
  const edge = line.clientWidth - panel.offsetWidth;
  const left = top >= least ? button.offsetLeft : right <= edge ? right : button.offsetLeft - panel.offsetWidth - 8;
  panel.style.left = `${Math.max(0, Math.min(left, edge))}px`;
  panel.style.top = `${Math.max(top, least)}px`;
}

// A line of tokens; the one that is pointed at, focused or touched shows its alternatives. Of a single one they are said.
export function tokenLine(output) {
  const tokens = output?.tokens || [];
  if (!tokens.length || tokens.length > MOST || !tokens.some((token) => token.alternatives.length)) return null;
  if (tokens.length === 1) return make("p", { class: "answer-tokens quiet" }, say`or else ${otherwise(tokens[0])}`);
  const panel = make("div", { class: "card popover", hidden: true });
  const hide = () => { panel.hidden = true; };
  const line = make("div", { class: "answer-tokens", role: "group", "aria-label": say`Tokens of the output`, onpointerleave: hide, onkeydown: (event) => event.key === "Escape" && hide() });
  const show = (button, token) => {
    panel.replaceChildren(alternatives(token));
    panel.hidden = false;
    place(panel, button, line);
  };
  line.append(...tokens.map((token) => {
    const said = otherwise(token);
    const button = make("button", { type: "button", class: "answer-token", "aria-label": `${token.text} ${percent(token.score)}${said ? `, ${say`or else ${said}`}` : ""}`,
      style: { "--sure": Math.exp(token.score).toFixed(3) }, onpointerenter: () => show(button, token), onfocus: () => show(button, token), onclick: () => show(button, token), onblur: hide }, visible(token.text));
    return button;
  }), panel);
  return line;
}
