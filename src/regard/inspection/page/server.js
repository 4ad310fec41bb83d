// Talks to the server that sent the page, if one did: a new sentence, a what-if, the fine tiles of a long map, the numbers of a head.

import { say } from "./words.js";

const nothing = () => ({ off: [], forbid: [], temperature: 1 });
const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

export class Server {
  constructor(base, page) {
    Object.assign(this, { base, page, changes: nothing(), shown: nothing(), before: null, wanted: null, busy: false, wrong: "", upload: null });
  }

  async get(path, asked) {
    const answer = await fetch(`${this.base}/${path}?${new URLSearchParams(asked)}`);
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error || say`the server answered ${answer.status}`);
    return found;
  }

  // A function that fetches one tile of an inspection, as base64 text or null.
  tiles(one) {
    return async (map, head, level, i, j) => (await this.get("tile", { look: one.id, map, head, level, i, j })).data;
  }

  // All the numbers of one head.
  step(map, head) {
    return this.get("step", { look: this.page.raw.id, map, head });
  }

  get changed() {
    return !same(this.changes, nothing());
  }

  toggle(list, item) {
    const kept = this.changes[list].filter((other) => !same(other, item));
    const next = kept.length < this.changes[list].length ? kept : [...kept, item];
    this.changes = { ...this.changes, [list]: next };
  }

  has(list, item) {
    return this.changes[list].some((other) => same(other, item));
  }

  // What the address asks for, if that is not what is shown: after a reload, a link, or the back button.
  restore() {
    const { text = this.page.raw.text, off = [], hide = [], temperature = 1 } = this.page.state;
    const changes = { off, forbid: hide, temperature };
    if (text === this.page.raw.text && same(changes, this.shown)) return false;
    this.run(text, changes);
    return true;
  }

  // Run a sentence with what is switched off, forbidden or cooled; the page then shows the answer. A new sentence begins unchanged.
  // What is changed while an answer is awaited is asked for after it, so the last wish is the one that is shown.
  async run(text = this.page.raw.text, changes = text === this.page.raw.text ? this.changes : nothing()) {
    this.changes = changes;
    this.wanted = text;
    if (this.busy) return;
    this.busy = true;
    this.wrong = "";
    this.page.draw();
    try {
      while (this.wanted !== null) await this.ask();
    } catch (wrong) {
      this.wrong = wrong.message;
      this.wanted = null;
      this.changes = this.shown; // what failed is not kept: no later wish fails with it
    } finally {
      this.busy = false;
      this.page.draw();
    }
  }

  async ask() {
    const [text, changes, before] = [this.wanted, this.changes, this.page.raw];
    this.wanted = null;
    const upload = this.upload?.name === text ? { upload: this.upload } : {}; // what-if on a file that was sent sends it again
    const body = JSON.stringify({ text, ...changes, ...upload });
    const answer = await fetch(`${this.base}/look`, { method: "POST", headers: { "Content-Type": "application/json" }, body });
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error || say`the server answered ${answer.status}`);
    if (same(changes, nothing()) || text !== before.text) this.before = null;
    else this.before ||= before;
    this.shown = changes;
    if (this.page.draft === text) this.page.draft = null;
    await this.page.replace(found);
    const { off, forbid, temperature } = changes;
    this.page.note({ text, off, hide: forbid, temperature: temperature === 1 ? undefined : temperature }, text !== before.text);
  }

  // A file of the reader's own, sent whole.
  async send(file) {
    const bytes = new Uint8Array(await file.arrayBuffer());
    let text = "";
    for (let i = 0; i < bytes.length; i += 32768) text += String.fromCharCode(...bytes.subarray(i, i + 32768));
    this.upload = { name: file.name, file: btoa(text) };
    return this.run(file.name);
  }

  reset() {
    return this.run(this.page.raw.text, nothing());
  }
}

// No server stands behind a page opened from disk.
export function server(raw, page) {
  return raw.server ? new Server(raw.server, page) : null;
}
