// The output tokens, each with its probability and its alternatives.

import { make, formatNumber, percent, visible } from "./dom.js";
import { t } from "./i18n.js";

const MAX_TOKENS = 80; // longer outputs have no token line

// The most likely tokens at one position as bars; the chosen token is highlighted, and added if it is not among them.
export function alternatives(token) {
  const entries = token.alternatives.some(([text]) => text === token.text) ? token.alternatives : [...token.alternatives, [token.text, token.score]];
  return make("ol", { class: "shares alternatives" }, entries.map(([text, score]) => make("li", { class: `share ${text === token.text ? "chosen" : ""}` },
    make("span", { class: "share-label" }, visible(text)),
    make("span", { class: "share-track" }, make("span", { class: "share-bar", style: { width: `${100 * Math.exp(score)}%` } })),
    make("span", { class: "figure share-value", title: `log p ${formatNumber(score, 3)}` }, percent(score)))));
}

// Alternatives to the chosen token as text.
export function alternativesText(token) {
  const alternatives = (token?.alternatives || []).filter(([text]) => text !== token.text).slice(0, 3);
  return alternatives.map(([text, score]) => `${visible(text)} ${percent(score)}`).join(" · ");
}

// Position the panel above its token, so that it does not cover the tabs; next to the token if there is no room above.
function positionPanel(panel, button, line) {
  const top = button.offsetTop - panel.offsetHeight - 4;
  const minTop = 4 - line.getBoundingClientRect().top;
  const right = button.offsetLeft + button.offsetWidth + 8;
  const maxLeft = line.clientWidth - panel.offsetWidth;
  const left = top >= minTop ? button.offsetLeft : right <= maxLeft ? right : button.offsetLeft - panel.offsetWidth - 8;
  panel.style.left = `${Math.max(0, Math.min(left, maxLeft))}px`;
  panel.style.top = `${Math.max(top, minTop)}px`;
}

// Line of tokens; a token that is hovered, focused or touched shows its alternatives. Those of a single token are always shown.
export function tokenLine(output) {
  const tokens = output?.tokens || [];
  if (!tokens.length || tokens.length > MAX_TOKENS || !tokens.some((token) => token.alternatives.length)) return null;
  if (tokens.length === 1) return make("p", { class: "answer-tokens quiet" }, t`alternatives: ${alternativesText(tokens[0])}`);
  const panel = make("div", { class: "card popover", hidden: true });
  const hide = () => { panel.hidden = true; };
  const line = make("div", { class: "answer-tokens", role: "group", "aria-label": t`Tokens of the output`, onpointerleave: hide, onkeydown: (event) => event.key === "Escape" && hide() });
  const show = (button, token) => {
    panel.replaceChildren(alternatives(token));
    panel.hidden = false;
    positionPanel(panel, button, line);
  };
  line.append(...tokens.map((token) => {
    const otherTokens = alternativesText(token);
    const button = make("button", { type: "button", class: "answer-token", "aria-label": `${token.text} ${percent(token.score)}${otherTokens ? `, ${t`alternatives: ${otherTokens}`}` : ""}`,
      style: { "--sure": Math.exp(token.score).toFixed(3) }, onpointerenter: () => show(button, token), onfocus: () => show(button, token), onclick: () => show(button, token), onblur: hide }, visible(token.text));
    return button;
  }), panel);
  return line;
}
