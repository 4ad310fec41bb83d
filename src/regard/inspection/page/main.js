// Starts the page: reads the data, lists the views that suit it, keeps what is chosen, and draws the chosen view again on a change.

import { make, announce } from "./dom.js";
import { Inspection } from "./data.js";
import { clamp, read, write } from "./state.js";
import { header } from "./header.js";
import { aside } from "./side_panel.js";
import { server } from "./server.js";
import { language, say } from "./i18n.js";

class Page {
  constructor(raw, views) {
    Object.assign(this, { raw, views, state: read(), server: server(raw, this), draft: null });
    this.take(raw);
    for (const moved of ["hashchange", "popstate"]) window.addEventListener(moved, () => this.restore());
    let wide = window.innerWidth;
    window.addEventListener("resize", () => {
      if (window.innerWidth === wide) return; // phones resize when their address bar hides
      wide = window.innerWidth;
      this.draw();
    });
  }

  // A page holds one inspection, or several to compare.
  take(raw) {
    this.raw = raw;
    this.runs = (raw.runs || [raw]).map((one) => new Inspection(one, this.server?.tiles(one) ?? null));
  }

  // Shows what the address says.
  restore() {
    if (location.hash === "#main") return;
    this.state = read();
    if (!this.server?.restore()) this.draw();
  }

  get data() {
    return this.runs[clamp(this.state.run, this.runs.length)];
  }

  suits(view, run) {
    try {
      return view.suits(run, this);
    } catch {
      return true; // a view that cannot even tell is drawn, and says what is wrong
    }
  }

  // The same views whichever of several runs is chosen.
  get suited() {
    return this.views.filter((view) => this.runs.some((run) => this.suits(view, run)));
  }

  get view() {
    return this.suited.find((view) => view.name === this.state.view) || this.suited.find((view) => view.opens) || this.suited[0];
  }

  // Another view or run is a step of its own for the back button.
  change(patch) {
    const step = ["view", "run"].some((key) => key in patch && patch[key] !== this.state[key]);
    this.note(patch, step);
    this.draw();
  }

  // Keeps the fragment true without drawing again, for what a hover changes.
  note(patch, step = false) {
    Object.assign(this.state, patch);
    write(this.state, step);
  }

  async replace(raw) {
    this.take(raw);
    await this.load();
    this.draw();
  }

  load() {
    return Promise.all(this.runs.map((run) => run.load()));
  }

  draw() {
    const focus = document.activeElement?.getAttribute?.("data-key");
    const { selectionStart: from, selectionEnd: to } = document.activeElement || {};
    const scroll = window.scrollY;
    document.title = `${this.data.title} · regard`;
    document.getElementById("head").replaceChildren(...header(this));
    this.drawTabs();
    const main = document.getElementById("main");
    const { view } = this;
    this.stop?.();
    const element = make("div", { class: `view view-${view?.name}`, id: "view", role: "tabpanel", "aria-label": view?.title || say`Nothing to show` });
    main.replaceChildren(element);
    // Decided before the view measures its room.
    const beside = Boolean(this.server) || (view?.beside && this.data.maps.some((map) => map.honesty));
    document.body.classList.toggle("with-aside", Boolean(beside));
    this.looked = null; // a view says which map it shows, so that the figures beside it are that map's
    this.stop = this.show(view, element);
    document.getElementById("aside").replaceChildren(...aside(this));
    const focused = focus && document.querySelector(`[data-key="${CSS.escape(focus)}"]`);
    focused?.focus({ preventScroll: true });
    if (focused && Number.isInteger(from)) focused.setSelectionRange?.(from, to);
    window.scrollTo(window.scrollX, scroll);
  }

  // What a view draws, or one line if it cannot.
  show(view, element) {
    if (!view) return element.append(make("p", {}, say`There is nothing here to show.`));
    if (!this.suits(view, this.data)) {
      const { model } = this.data;
      return element.append(make("p", { class: "no-map" }, this.data.maps.length ? say`${model} has nothing to show here; choose another run or view.` : say`${model} has nothing to show here: it has no attention; choose another run or view.`));
    }
    try {
      return view.show(this.data, element, this);
    } catch (wrong) {
      console.error(wrong);
      return element.replaceChildren(make("p", { class: "wrong", role: "alert" }, say`The view ${view.title} failed: ${wrong.message}`));
    }
  }

  drawTabs() {
    const tabs = this.suited.map((view) => make("button", {
      type: "button", role: "tab", class: "tab", id: `tab-${view.name}`, "data-key": `tab:${view.name}`, "aria-controls": "view",
      "aria-selected": String(view === this.view), tabindex: view === this.view ? 0 : -1,
      onclick: () => this.change({ view: view.name }),
    }, view.title));
    const nav = document.getElementById("tabs");
    nav.replaceChildren(...tabs);
    tabs[this.suited.indexOf(this.view)]?.scrollIntoView({ block: "nearest", inline: "nearest" });
    nav.onkeydown = (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!by) return;
      const next = this.suited[(this.suited.indexOf(this.view) + by + tabs.length) % tabs.length];
      this.change({ view: next.name });
      document.getElementById(`tab-${next.name}`).focus();
      announce(next.title);
    };
  }
}

// The theme that was chosen by hand, here or on an earlier visit, or else the system's, whenever that changes.
function theme() {
  try {
    document.documentElement.dataset.chosen = localStorage.getItem("regard-theme") || "";
  } catch {
    // Storage may be forbidden in a sandboxed frame; the system's choice is used then.
  }
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const { dataset } = document.documentElement;
    dataset.theme = dataset.chosen || (system.matches ? "dark" : "light");
  };
  apply();
  return { system, apply };
}

// A view whose file has a mistake says so in its place.
function broken(name) {
  const said = say`The view ${name} could not be read: there is a mistake in its file, which the browser's console names.`;
  return { name, title: name.split(".").at(-1), suits: () => true, show: (data, element) => element.append(make("p", { class: "wrong", role: "alert" }, said)) };
}

// The words that stand in the page before any script has run.
function translate() {
  document.documentElement.lang = language;
  document.getElementById("skip").textContent = say`Skip to the view`;
  document.getElementById("tabs").setAttribute("aria-label", say`Views`);
  document.getElementById("aside").setAttribute("aria-label", say`Details`);
}

// views: [name, view] in the order of their tabs
export async function start(views) {
  translate();
  const kept = theme();
  const raw = JSON.parse(document.getElementById("data").textContent);
  const page = new Page(raw, views.map(([name, view]) => view || broken(name)));
  kept.system.addEventListener("change", () => {
    kept.apply();
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
