// Text with gaps: the most likely words for each gap, and all gaps filled in the most likely ways.

import { make, formatNumber, visible } from "../dom.js";
import { alternatives } from "../tokens.js";
import { clamp } from "../state.js";
import { t } from "../i18n.js";

function gappedText(data, { gaps, chosen, pick }) {
  const tokens = data.outputs[0].tokens;
  return make("p", { class: "gapped", style: { "font-size": "18px", "line-height": "2.2", "margin-top": "8px" } }, data.axes.text.items.map((item, position) => {
    const gap = gaps.indexOf(position);
    if (gap < 0) return item.special ? null : [make("span", { style: { color: "var(--ink-soft)" } }, visible(item.text)), " "];
    return [make("button", { type: "button", class: "chip word-chip", "data-key": `gap:${gap}`, "aria-pressed": String(gap === chosen),
      style: { "--chip": "var(--accent)" }, title: t`gap ${gap + 1}`, onclick: () => pick(gap) }, visible(tokens[gap].text)), " "];
  }));
}

export const view = {
  name: "masked",
  title: t`Gaps`,
  opensFirst: true, // the page opens with this view
  suits: (data) => Boolean(data.extra?.masked) && data.outputs.length > 0,
  show(data, element, page) {
    const { gaps } = data.extra.masked;
    const tokens = data.outputs[0].tokens;
    const chosen = clamp(page.state.row, tokens.length);
    const pick = (row) => page.change({ row });
    const completions = make("ol", { class: "nbest-plain", style: { "padding-left": "24px", "line-height": "1.7" } }, data.outputs.map((output) => make("li", {}, output.text, " ",
      make("span", { class: "figure quiet" }, formatNumber(100 * Math.exp(output.score), 1), "%"))));
    element.append(make("section", { class: "card split" },
      make("div", {}, make("p", { class: "quiet" }, t`Select a gap to see its alternatives. Each gap is predicted without knowing the words in the other gaps.`),
        gappedText(data, { gaps, chosen, pick }), make("h3", { style: { margin: "16px 0 4px" } }, t`Most likely ways to fill all gaps`), completions),
      make("section", { class: "distribution", "aria-label": t`Words for gap ${chosen + 1}` },
        make("h3", {}, make("span", { class: "word" }, t`gap ${chosen + 1}`), make("span", { class: "quiet" }, ` ${t`most likely first`}`)),
        alternatives(tokens[chosen]))));
  },
};
