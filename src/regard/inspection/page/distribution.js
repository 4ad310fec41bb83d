// One row of a map as numbers: a bar and four digits per key, and the sum, which is 1.

import { make, number, visible } from "./dom.js";
import { headColour } from "./color.js";
import { say } from "./i18n.js";

const MOST = 40;
const LONG = 14; // letters of a label beyond which it gets a line of its own

function entry(label, weight, { top, head, key, open }) {
  return make("li", { class: "share", "data-index": key },
    open ? make("button", { type: "button", class: "link share-label", title: say`look inside ${label}`, onclick: open }, visible(label), " ›")
      : make("span", { class: "share-label", title: label }, visible(label)),
    make("span", { class: "share-track" },
      make("span", { class: "share-bar", style: { width: `${(100 * weight) / (top || 1)}%`, ...(head >= 0 ? { background: headColour(head) } : {}) } })),
    make("span", { class: "figure share-value" }, number(weight)));
}

// labels, weights (same length) -> a list. Long rows show their largest weights and what is left over. `opens` gives for
// a key what is done to look inside it, or null.
export function distribution({ labels, weights, title, subtitle, head = -1, opens = () => null }) {
  let shown = Array.from(weights, (_, i) => i);
  if (shown.length > MOST) shown = shown.filter((i) => weights[i] > 0).sort((a, b) => weights[b] - weights[a]).slice(0, MOST);
  const top = Math.max(0, ...shown.map((i) => weights[i]));
  const sum = weights.reduce((total, weight) => total + weight, 0);
  const rest = sum - shown.reduce((total, i) => total + weights[i], 0);
  const items = shown.map((i) => entry(labels[i], weights[i], { top, head, key: i, open: opens(i) }));
  return make("section", { class: "distribution", "aria-label": say`Distribution of ${title}` },
    make("h3", {}, make("span", { class: "word" }, visible(title)), subtitle ? make("span", { class: "quiet" }, ` ${subtitle}`) : null),
    make("ol", { class: `shares ${shown.some((i) => labels[i].length > LONG) ? "wide" : ""}` }, items),
    shown.length < weights.length
      ? make("p", { class: "quiet" }, say`and ${weights.length - shown.length} smaller, together ${number(rest)}`) : null,
    make("p", { class: "sum" }, sum === 0 ? say`may look at nothing: all zeros` : [say`sum`, " ", make("span", { class: "figure" }, number(sum))]));
}
