// The page where there is nothing to show: its words, which stand in it in English, in the language of the browser.

import { language, say } from "./i18n.js";

// Enter looks and Shift+Enter begins a line, as on every page; line breaks are sent as they are, and not as a form has them.
function keepLines(form, box) {
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const asked = new URLSearchParams(new FormData(form));
    asked.set("text", box.value);
    location.assign(`/?${asked}`);
  });
}

export function start() {
  document.documentElement.lang = language;
  document.querySelector("h1").textContent = say`There is nothing to show`;
  document.querySelector(".ask").setAttribute("aria-label", say`Input`);
  document.querySelector(".action").textContent = say`Look`;
  document.getElementById("others")?.replaceChildren(say`Runs here:`);
  keepLines(document.querySelector("form.asking"), document.querySelector(".ask"));
  document.documentElement.dataset.ready = "yes";
}
