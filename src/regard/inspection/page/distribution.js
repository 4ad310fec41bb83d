// One row of a map as numbers: a bar and four digits per key, and their sum, which is 1.

import { make, formatNumber, visible } from "./dom.js";
import { headColor } from "./color.js";
import { t } from "./i18n.js";

const MAX_BARS = 40;
const LONG_LABEL_CHARACTERS = 14; // characters; longer labels are on a separate line

function bar(label, weight, { top, head, key, open }) {
  return make("li", { class: "share", "data-index": key },
    open ? make("button", { type: "button", class: "link share-label", title: t`open the maps inside ${label}`, onclick: open }, visible(label), " ›")
      : make("span", { class: "share-label", title: label }, visible(label)),
    make("span", { class: "share-track" },
      make("span", { class: "share-bar", style: { width: `${(100 * weight) / (top || 1)}%`, ...(head >= 0 ? { background: headColor(head) } : {}) } })),
    make("span", { class: "figure share-value" }, formatNumber(weight)));
}

// labels, weights (same length) -> list of bars. Long rows show their largest weights and the sum of the remaining ones.
// `openerOf(key)` returns the click handler that opens the maps inside a key, or null. `isOff`: the head is switched off.
export function distribution({ labels, weights, title, subtitle, head = -1, openerOf = () => null, isOff = false }) {
  let indices = Array.from(weights, (_, i) => i);
  if (indices.length > MAX_BARS) indices = indices.filter((i) => weights[i] > 0).sort((a, b) => weights[b] - weights[a]).slice(0, MAX_BARS);
  const top = Math.max(0, ...indices.map((i) => weights[i]));
  const sum = weights.reduce((total, weight) => total + weight, 0);
  const remaining = sum - indices.reduce((total, i) => total + weights[i], 0);
  const items = indices.map((i) => bar(labels[i], weights[i], { top, head, key: i, open: openerOf(i) }));
  return make("section", { class: "distribution", "aria-label": t`Distribution of ${title}` },
    make("h3", {}, make("span", { class: "word" }, visible(title)), subtitle ? make("span", { class: "quiet" }, ` ${subtitle}`) : null),
    make("ol", { class: `shares ${indices.some((i) => labels[i].length > LONG_LABEL_CHARACTERS) ? "wide" : ""}` }, items),
    indices.length < weights.length
      ? make("p", { class: "quiet" }, t`and ${weights.length - indices.length} smaller weights, sum ${formatNumber(remaining)}`) : null,
    make("p", { class: "sum" }, isOff ? t`this head is switched off` : sum === 0 ? t`attends to nothing: all zeros` : [t`sum`, " ", make("span", { class: "figure" }, formatNumber(sum))]));
}
