// Shell of the page: theme and language, before its data has arrived.

import { language, t } from "./i18n.js";

// Use the theme chosen by the user, now or on an earlier visit; otherwise follow the system's theme.
export function initTheme() {
  try {
    document.documentElement.dataset.chosen = localStorage.getItem("regard-theme") || "";
  } catch {
    // Storage may be forbidden in a sandboxed frame; the system's theme is used then.
  }
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const { dataset } = document.documentElement;
    dataset.theme = dataset.chosen || (system.matches ? "dark" : "light");
  };
  apply();
  return { system, apply };
}

// Translate the texts that are in the page before any script has run.
export function translateShell() {
  document.documentElement.lang = language;
  document.querySelector(".waiting").textContent = t`Computing the maps …`;
  document.getElementById("skip").textContent = t`Skip to the view`;
  document.getElementById("tabs").setAttribute("aria-label", t`Views`);
  document.getElementById("aside").setAttribute("aria-label", t`Details`);
}

// Called by the placeholder of a page whose data is still being computed.
export function start() {
  initTheme();
  translateShell();
}
