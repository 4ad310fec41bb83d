// Text token by token, colored by probability; the selected token with its alternatives. If the page has a server, a click on an
// alternative generates a continuation from there.

import { make, formatNumber, percent, visible } from "../dom.js";
import { clamp } from "../state.js";
import { t } from "../i18n.js";

// The prompt for a continuation: the text up to a position, followed by an alternative.
const promptUpTo = (raw, position, alternative) => (raw.pieces.slice(0, position).join("") + raw.alternatives[position][alternative]).replace(/^ /, "");

function tokenButton(token, position, { given: promptLength, chosen, pick }) {
  return make("button", {
    type: "button", class: "answer-token", "data-key": `token:${position}`, "data-given": position < promptLength, "aria-pressed": String(position === chosen),
    title: position < promptLength ? t`${percent(token.score)}, from the prompt` : percent(token.score), onclick: () => pick(position),
    style: { "--sure": Math.exp(token.score).toFixed(3), ...(position === chosen ? { outline: "2px solid var(--accent)" } : {}) },
  }, visible(token.text));
}

function candidateList(token, position, { raw, page }) {
  const continueWith = page.server ? (alternative) => page.server.run(promptUpTo(raw, position, alternative)) : null;
  const isListed = token.alternatives.some(([text]) => text === token.text);
  const rows = token.alternatives.map(([text, score], alternative) => ({ text, score, alternative }));
  if (!isListed) rows.push({ text: token.text, score: token.score, other: -1 });
  return make("ol", { class: "shares alternatives" }, rows.map(({ text, score, alternative }) => make("li", { class: `share ${text === token.text ? "chosen" : ""}` },
    continueWith && alternative >= 0 && raw.alternatives[position][alternative]
      ? make("button", { type: "button", class: "link share-label", title: t`continue from here with ${visible(text)}`, onclick: () => continueWith(alternative) }, visible(text), " ›")
      : make("span", { class: "share-label" }, visible(text)),
    make("span", { class: "share-track" }, make("span", { class: "share-bar", style: { width: `${100 * Math.exp(score)}%` } })),
    make("span", { class: "figure share-value", title: `log p ${formatNumber(score, 3)}` }, percent(score)))));
}

export const view = {
  name: "next_token",
  title: t`Next token`,
  opensFirst: true, // the page opens with this view
  drawsTokens: true, // the header does not list them again
  suits: (data) => Boolean(data.extra?.next_token) && data.outputs[0].tokens.length > 0,
  show(data, element, page) {
    const raw = data.extra.next_token;
    const { tokens } = data.outputs[0];
    const chosen = page.state.row === undefined ? Math.min(raw.given, tokens.length - 1) : clamp(page.state.row, tokens.length); // the first generated token
    const pick = (row) => page.change({ row });
    const hint = make("p", { class: "quiet" }, t`${tokens.length} tokens, ${raw.given} of them from the prompt. The bluer the line below a token, the higher its probability.`,
      page.server ? ` ${t`Select a token, then one of its alternatives: the model continues the text from there.`}` : "");
    const nats = tokens.reduce((sum, token) => sum - token.score, 0) / tokens.length;
    element.append(make("section", { class: "card split" },
      make("div", {}, hint, make("div", { class: "answer-tokens", role: "group", "aria-label": t`Tokens of the text`, style: { margin: "16px 0" } },
        tokens.map((token, position) => tokenButton(token, position, { given: raw.given, chosen, pick }))),
        make("p", { class: "quiet" }, t`mean of ${formatNumber(nats, 3)} nats per token`)),
      make("section", { class: "distribution", "aria-label": t`Alternatives at position ${chosen + 1}` },
        make("h3", {}, make("span", { class: "word" }, visible(tokens[chosen].text)), make("span", { class: "quiet" }, ` ${t`position ${chosen + 1}, most likely first`}`)),
        candidateList(tokens[chosen], chosen, { raw, page }))));
  },
};
