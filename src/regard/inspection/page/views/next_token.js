// A text token by token, each as sure as it was foretold; the chosen one with what else might have stood there. Where a
// server stands behind the page, a click on an alternative goes on from there.

import { make, number, visible } from "../dom.js";
import { clamp } from "../state.js";
import { say } from "../i18n.js";

const percent = (score) => `${number(100 * Math.exp(score), score > -0.7 ? 0 : 1)}%`;

// The text up to a place, and an alternative behind it: what the model is to go on from.
const beginning = (raw, place, other) => (raw.pieces.slice(0, place).join("") + raw.alternatives[place][other]).replace(/^ /, "");

function tokenButton(token, place, { given, chosen, pick }) {
  return make("button", {
    type: "button", class: "answer-token", "data-key": `token:${place}`, "data-given": place < given, "aria-pressed": String(place === chosen),
    title: place < given ? say`${percent(token.score)}, given` : percent(token.score), onclick: () => pick(place),
    style: { "--sure": Math.exp(token.score).toFixed(3), ...(place === chosen ? { outline: "2px solid var(--accent)" } : {}), ...(place < given ? { opacity: "0.7" } : {}) },
  }, visible(token.text));
}

function likeliest(token, place, { raw, page }) {
  const goOn = page.server ? (other) => page.server.run(beginning(raw, place, other)) : null;
  const known = token.alternatives.some(([text]) => text === token.text);
  const rows = token.alternatives.map(([text, score], other) => ({ text, score, other }));
  if (!known) rows.push({ text: token.text, score: token.score, other: -1 });
  return make("ol", { class: "shares alternatives" }, rows.map(({ text, score, other }) => make("li", { class: `share ${text === token.text ? "chosen" : ""}` },
    goOn && other >= 0 && raw.alternatives[place][other]
      ? make("button", { type: "button", class: "link share-label", title: say`go on from here with ${visible(text)}`, onclick: () => goOn(other) }, visible(text), " ›")
      : make("span", { class: "share-label" }, visible(text)),
    make("span", { class: "share-track" }, make("span", { class: "share-bar", style: { width: `${100 * Math.exp(score)}%` } })),
    make("span", { class: "figure share-value", title: `log p ${number(score, 3)}` }, percent(score)))));
}

export const view = {
  name: "next_token",
  title: say`Next token`,
  opens: true, // the page begins with it
  suits: (data) => Boolean(data.extra?.next_token) && data.outputs[0].tokens.length > 0,
  show(data, element, page) {
    const raw = data.extra.next_token;
    const { tokens } = data.outputs[0];
    const chosen = clamp(page.state.row, tokens.length);
    const pick = (row) => page.change({ row });
    const said = make("p", { class: "quiet" }, say`${tokens.length} tokens, ${raw.given} of them given. The line below a token is as blue as the model was sure of it.`,
      page.server ? ` ${say`Choose a token, then another one in its place: the text goes on from there.`}` : "");
    const nats = tokens.reduce((sum, token) => sum - token.score, 0) / tokens.length;
    element.append(make("section", { class: "card split" },
      make("div", {}, said, make("div", { class: "answer-tokens", role: "group", "aria-label": say`Tokens of the text`, style: { margin: "16px 0" } },
        tokens.map((token, place) => tokenButton(token, place, { given: raw.given, chosen, pick }))),
        make("p", { class: "quiet" }, say`mean of ${number(nats, 3)} nats a token`)),
      make("section", { class: "distribution", "aria-label": say`What might stand at place ${chosen + 1}` },
        make("h3", {}, make("span", { class: "word" }, visible(tokens[chosen].text)), make("span", { class: "quiet" }, ` ${say`place ${chosen + 1}, likeliest first`}`)),
        likeliest(tokens[chosen], chosen, { raw, page }))));
  },
};
