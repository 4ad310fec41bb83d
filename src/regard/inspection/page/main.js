// Starts the page: reads the data, lists the views that suit it, keeps what is chosen, and draws the chosen view again on a change.

import { make, announce } from "./dom.js";
import { Inspection } from "./data.js";
import { read, write } from "./state.js";
import { header } from "./header.js";
import { aside } from "./aside.js";
import { server } from "./server.js";

class Page {
  constructor(raw, views) {
    Object.assign(this, { raw, views, state: read(), server: server(raw, this) });
    this.take(raw);
    window.addEventListener("hashchange", () => {
      if (location.hash === "#main") return;
      this.state = read();
      this.draw();
    });
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

  get data() {
    return this.runs[Math.min(this.state.run || 0, this.runs.length - 1)];
  }

  get suited() {
    return this.views.filter((view) => {
      try {
        return view.suits(this.data, this);
      } catch {
        return true; // a view that cannot even tell is drawn, and says what is wrong
      }
    });
  }

  get view() {
    return this.suited.find((view) => view.name === this.state.view) || this.suited[0];
  }

  change(patch) {
    Object.assign(this.state, patch);
    write(this.state);
    this.draw();
  }

  // Keeps the fragment true without drawing again, for what a hover changes.
  note(patch) {
    Object.assign(this.state, patch);
    write(this.state);
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
    const scroll = window.scrollY;
    document.title = `${this.data.title} · regard`;
    document.getElementById("head").replaceChildren(...header(this));
    this.drawTabs();
    const main = document.getElementById("main");
    const { view } = this;
    this.stop?.();
    const element = make("div", { class: `view view-${view?.name}`, id: "view", role: "tabpanel", "aria-label": view?.title || "Nothing to show" });
    main.replaceChildren(element);
    // Decided before the view measures its room.
    const beside = Boolean(this.server) || (view?.beside && this.data.maps.some((map) => map.honesty));
    document.body.classList.toggle("with-aside", Boolean(beside));
    this.looked = null; // a view says which map it shows, so that the figures beside it are that map's
    this.stop = this.show(view, element);
    document.getElementById("aside").replaceChildren(...aside(this));
    if (focus) document.querySelector(`[data-key="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true });
    window.scrollTo(window.scrollX, scroll);
  }

  // What a view draws, or one line if it cannot.
  show(view, element) {
    if (!view) return element.append(make("p", {}, "There is nothing here to show."));
    try {
      return view.show(this.data, element, this);
    } catch (wrong) {
      console.error(wrong);
      return element.replaceChildren(make("p", { class: "wrong", role: "alert" }, `The view ${view.title} failed: ${wrong.message}`));
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

function theme() {
  let kept = null;
  try {
    kept = localStorage.getItem("regard-theme");
  } catch {
    // Storage may be forbidden in a sandboxed frame; the system's choice is used then.
  }
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    document.documentElement.dataset.theme = kept || (system.matches ? "dark" : "light");
  };
  apply();
  return { system, apply, chosen: () => Boolean(kept) };
}

// A view whose file has a mistake says so in its place.
function broken(name) {
  const said = `The view ${name} could not be read: there is a mistake in its file, which the browser's console names.`;
  return { name, title: name.split(".").at(-1), suits: () => true, show: (data, element) => element.append(make("p", { class: "wrong", role: "alert" }, said)) };
}

// views: [name, view] in the order of their tabs
export async function start(views) {
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
  document.documentElement.dataset.ready = "yes";
}
