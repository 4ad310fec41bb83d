// Start the page: read the data, list the views that can show it, store the selection, and redraw the selected view on changes.

import { make, announce } from "./dom.js";
import { Inspection } from "./data.js";
import { clamp, readState, writeState } from "./state.js";
import { renderHeader } from "./header.js";
import { sidePanel } from "./side_panel.js";
import { createConnection } from "./connection.js";
import { initTheme, translateShell } from "./shell.js";
import { t } from "./i18n.js";

class Page {
  constructor(raw, views) {
    Object.assign(this, { raw, views, state: readState(), server: createConnection(raw, this), draft: null });
    this.setData(raw);
    for (const eventName of ["hashchange", "popstate"]) window.addEventListener(eventName, () => this.restore());
    let lastWidth = window.innerWidth;
    window.addEventListener("resize", () => {
      if (window.innerWidth === lastWidth) return; // phones resize when their address bar hides
      lastWidth = window.innerWidth;
      this.draw();
    });
  }

  // A page shows one inspection, or several to compare.
  setData(raw, compared = []) {
    this.raw = raw;
    this.runs = [...(raw.runs || [raw]), ...compared].map((run) => new Inspection(run, this.server?.tileFetcher(run) ?? null));
  }

  // Show the state in the address.
  restore() {
    if (location.hash === "#main") return;
    this.state = readState();
    if (!this.server?.restore()) this.draw();
  }

  get data() {
    return this.runs[this.server ? 0 : clamp(this.state.run, this.runs.length)]; // a server inspects its first run; others are only compared
  }

  suits(view, run) {
    try {
      return view.suits(run, this);
    } catch {
      return true; // a view whose check fails is shown, and reports the error
    }
  }

  // The views are the same for every selected run.
  get availableViews() {
    const views = this.views.filter((view) => this.runs.some((run) => this.suits(view, run)));
    const isFirst = ({ opensFirst }) => opensFirst === true || (opensFirst === "alone" && this.runs.length === 1);
    return [...views.filter(isFirst), ...views.filter((view) => !isFirst(view))]; // the views of the task first
  }

  get view() {
    return this.availableViews.find((view) => view.name === this.state.view) || this.availableViews[0];
  }

  // Changing the view or the run adds a step to the browser history.
  change(patch) {
    const historyStep = ["view", "run"].some((key) => key in patch && patch[key] !== this.state[key]);
    this.updateState(patch, historyStep);
    this.draw();
  }

  // Update the address without redrawing, for changes by hovering.
  updateState(patch, historyStep = false) {
    Object.assign(this.state, patch);
    writeState(this.state, historyStep);
  }

  // `compared`: the same input inspected by other runs of the server.
  async replace(raw, compared = []) {
    this.setData({ ...raw, choices: raw.choices ?? this.raw.choices, options: raw.options ?? this.raw.options }, compared); // only the first page lists the runs of the server
    await this.load();
    this.draw();
  }

  load() {
    return Promise.all(this.runs.map((run) => run.load()));
  }

  draw() {
    const focusKey = document.activeElement?.getAttribute?.("data-key");
    const { selectionStart, selectionEnd } = document.activeElement || {};
    const scroll = window.scrollY;
    const frames = [...document.querySelectorAll("[data-scroll]")].map((frame) => [frame.dataset.scroll, frame.scrollTop, frame.scrollLeft]);
    document.title = `${this.data.title} · regard`;
    document.getElementById("head").replaceChildren(...renderHeader(this));
    this.drawTabs();
    const main = document.getElementById("main");
    const { view } = this;
    this.cleanup?.();
    const element = make("div", { class: `view view-${view?.name}`, id: "view", role: "tabpanel", "aria-label": view?.title || t`Nothing to show` });
    main.replaceChildren(element);
    // Set before the view measures its width.
    const withSidePanel = Boolean(this.server) || (view?.sidePanel && this.data.maps.some((map) => map.honesty));
    document.body.classList.toggle("with-aside", Boolean(withSidePanel));
    this.selection = null; // set by the view to the map it shows; the side panel shows the metrics of that map
    this.cleanup = this.showView(view, element);
    document.getElementById("aside").replaceChildren(...sidePanel(this));
    const focused = focusKey && document.querySelector(`[data-key="${CSS.escape(focusKey)}"]`);
    focused?.focus({ preventScroll: true });
    if (focused && Number.isInteger(selectionStart)) focused.setSelectionRange?.(selectionStart, selectionEnd);
    for (const [key, top, left] of frames) document.querySelector(`[data-scroll="${CSS.escape(key)}"]`)?.scrollTo(left, top);
    window.scrollTo(window.scrollX, scroll);
  }

  // Draw a view, or a one-line message if it cannot be drawn.
  showView(view, element) {
    if (!view) return element.append(make("p", {}, t`There is nothing to show here.`));
    if (!this.suits(view, this.data)) {
      const { model } = this.data;
      return element.append(make("p", { class: "no-map" }, this.data.maps.length ? t`${model} has nothing to show here; choose another run or view.` : t`${model} has nothing to show here: it has no attention; choose another run or view.`));
    }
    try {
      return view.show(this.data, element, this);
    } catch (error) {
      console.error(error);
      return element.replaceChildren(make("p", { class: "wrong", role: "alert" }, t`The view ${view.title} failed: ${error.message}`));
    }
  }

  drawTabs() {
    const tabs = this.availableViews.map((view) => make("button", {
      type: "button", role: "tab", class: "tab", id: `tab-${view.name}`, "data-key": `tab:${view.name}`, "aria-controls": "view",
      "aria-selected": String(view === this.view), tabindex: view === this.view ? 0 : -1,
      onclick: () => this.change({ view: view.name }),
    }, view.title));
    const nav = document.getElementById("tabs");
    nav.replaceChildren(...tabs);
    scrollStripTo(nav, tabs[this.availableViews.indexOf(this.view)]);
    nav.onkeydown = (event) => {
      const offset = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!offset) return;
      const next = this.availableViews[(this.availableViews.indexOf(this.view) + offset + tabs.length) % tabs.length];
      this.change({ view: next.name });
      document.getElementById(`tab-${next.name}`).focus();
      announce(next.title);
    };
  }
}

// Scroll a strip sideways until an element is in sight. scrollIntoView would scroll the page around an embedded frame too.
function scrollStripTo(strip, element) {
  if (!element) return;
  const [start, end] = [element.offsetLeft - strip.offsetLeft, element.offsetLeft - strip.offsetLeft + element.offsetWidth];
  if (start < strip.scrollLeft) strip.scrollLeft = start;
  else if (end > strip.scrollLeft + strip.clientWidth) strip.scrollLeft = end - strip.clientWidth;
}

// A view whose file has an error is replaced by a message.
function brokenView(name) {
  const message = t`The view ${name} could not be loaded: its file has an error; see the browser console.`;
  return { name, title: name.split(".").at(-1), suits: () => true, show: (data, element) => element.append(make("p", { class: "wrong", role: "alert" }, message)) };
}

// views: [name, view] in the order of their tabs
export async function start(views) {
  translateShell();
  const control = initTheme();
  const raw = JSON.parse(document.getElementById("data").textContent);
  const page = new Page(raw, views.map(([name, view]) => view || brokenView(name)));
  control.system.addEventListener("change", () => {
    control.apply();
    page.draw();
  });
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault();
    document.getElementById("main").focus();
  });
  await page.load();
  page.draw();
  page.server?.restore();
  document.documentElement.dataset.ready = "yes";
}
