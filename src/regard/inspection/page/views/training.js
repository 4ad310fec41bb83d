// Training scrubber: the maps of fixed examples, recorded during training. The slider shows how they develop.

import { make, formatNumber, select } from "../dom.js";
import { matrix, legend } from "../matrix.js";
import { clamp } from "../state.js";
import { axisTitles } from "../attention_levels.js";
import { EMPTY } from "../header.js";
import { t } from "../i18n.js";

// Explain whether the rows of all steps can be compared.
function rowsHint(probes) {
  if (probes.every((probe) => probe.fixed)) return t`The model is given the reference output at every step, so the rows are the same at all steps. Its own output at that step is shown next to the step.`;
  const identical = probes.every((probe) => probe.maps.every((map, i) => probe.labels(map.queries).join() === probes[0].labels(probes[0].maps[i].queries).join()));
  return identical ? "" : t`The data has no reference output for this input: the rows are the model's output at each step, so they differ.`;
}

export const view = {
  name: "training",
  title: t`Training`,
  suits: (data) => data.probes.length > 0,
  show(data, element, page) {
    const { probes } = data;
    const last = probes.length - 1;
    let index = Number.isInteger(page.state.probe) ? clamp(page.state.probe, probes.length) : last;
    const names = probes[last].maps.map((map) => map.name);
    const name = names.includes(page.state.map) ? page.state.map : names.at(-1);
    const heads = probes[last].maps.find((map) => map.name === name).heads;
    const head = heads > 1 && page.state.mix === "head" ? clamp(page.state.head, heads) : -1;
    const mapOf = (probe) => probe.maps.find((candidate) => candidate.name === name);
    const top = Math.max(...probes.filter(mapOf).map((probe) => mapOf(probe).colorTop(head))); // one scale for all steps
    const holder = make("div", {});
    const line = make("p", { class: "readout", style: { "min-height": "3.2em" } });
    const drawAt = () => {
      const probe = probes[index];
      const map = mapOf(probe);
      const values = map.weights(head);
      line.replaceChildren(probe.text ? make("span", { class: "quiet" }, `${probe.text}  `) : "", `${t`step`} `, make("span", { class: "figure strong" }, probe.step.toLocaleString("en")), make("span", { class: "spoken-text" }, `  ${probe.output || EMPTY}`),
        Number.isFinite(probe.score) ? make("span", { class: "figure quiet" }, `  ${formatNumber(probe.score, 2)}`) : "");
      holder.replaceChildren(matrix({ title: t`${map.title} at step ${probe.step}`, rows: map.rows, columns: map.columns, values, top,
        ...axisTitles(probe, map), rowLabels: probe.labels(map.queries), columnLabels: probe.labels(map.keys) }, element.clientWidth - 48), legend(top));
      slider.value = index;
      slider.setAttribute("aria-valuetext", t`step ${probe.step}`);
      page.updateState({ probe: index });
    };
    const goTo = (to) => {
      index = to;
      drawAt();
    };
    const slider = make("input", { type: "range", min: 0, max: last, step: 1, value: index, class: "scrubber", "aria-label": t`Training step`, "data-key": "scrubber",
      oninput: (event) => goTo(Number(event.target.value)) });
    let timer = null;
    const stop = () => {
      clearInterval(timer);
      timer = null;
      play.textContent = t`Play`;
    };
    const play = make("button", { type: "button", class: "action", "data-key": "play", onclick: () => {
      if (timer) return stop();
      if (index === last) goTo(0);
      play.textContent = t`Pause`;
      timer = setInterval(() => (index < last ? goTo(index + 1) : stop()), 420);
    } }, t`Play`);
    element.append(make("div", { class: "controls" },
      select(t`Map`, names.map((key) => ({ key, label: probes[last].maps.find((map) => map.name === key).title })), name, (key) => page.change({ map: key })),
      heads > 1 ? select(t`Heads`, [{ key: "-1", label: t`mean of all heads` }, ...Array.from({ length: heads }, (_, i) => ({ key: String(i), label: t`head ${i + 1}` }))], String(head),
        (key) => page.change(key === "-1" ? { mix: undefined } : { mix: "head", head: Number(key) })) : null),
    make("section", { class: "card" }, make("div", { class: "scrub" }, play, slider), line, holder,
      make("p", { class: "quiet" }, rowsHint(probes))));
    drawAt();
    return stop;
  },
};
