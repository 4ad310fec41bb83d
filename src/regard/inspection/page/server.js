// Talks to the server that sent the page, if one did: a new sentence, a what-if, the fine tiles of a long map, the numbers of a head.

import { say } from "./i18n.js";

const nothing = () => ({ off: [], forbid: [], temperature: 1 });
const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
const alike = (one, other) => one.text === other.text && one.file === other.file; // whether two wishes have one input

// What of a wish stands in the address.
function addressOf({ text, file, changes: { off, forbid, temperature } }) {
  return { text: file ? undefined : text, file, off, hide: forbid, temperature: temperature === 1 ? undefined : temperature };
}

// A wish is an input (a text, or the name of a file that was sent and which one, `file`) with changes.
export class Server {
  constructor(raw, page) {
    const shown = { text: raw.text, changes: nothing() };
    Object.assign(this, { base: raw.server, page, first: raw.text, shown, last: shown, changes: nothing(), before: null, wanted: null, busy: false, wrong: "", files: new Map() });
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

  // What the address asks for, if that is not what is shown: after a reload, a link, or the back button. Files cannot be in an
  // address; one that was sent to this page is still here, for any other the page's first input stands, and the address says so.
  restore() {
    const { text = this.first, file, off = [], hide = [], temperature = 1 } = this.page.state;
    const lost = file ? !this.files.has(file) : this.page.raw.opens && text !== this.first; // the server opens no file by its name
    if (lost) this.page.note(addressOf({ changes: nothing() }));
    const input = lost ? { text: this.first } : file ? { text: this.files.get(file).name, file } : { text };
    const wish = { ...input, changes: lost ? nothing() : { off, forbid: hide, temperature }, restored: true };
    if (alike(wish, this.last) && same(wish.changes, this.last.changes)) return false;
    this.look(wish);
    return true;
  }

  // Look at a text, or again at what is shown, with what is switched off, forbidden or cooled. A new text begins unchanged.
  run(text = this.shown.text, changes = text === this.shown.text ? this.changes : nothing()) {
    return this.look({ text, file: text === this.shown.text ? this.shown.file : undefined, changes });
  }

  // The page shows the answer to a wish. What is wished while an answer is awaited is asked for after it, so the last wish is
  // the one that is shown.
  async look(wish) {
    Object.assign(this, { wanted: wish, last: wish, changes: wish.changes });
    if (this.busy) return;
    this.busy = true;
    this.wrong = "";
    this.page.draw();
    try {
      while (this.wanted !== null) await this.ask();
    } catch (wrong) {
      this.wrong = wrong.message;
      // what failed is not kept: no later wish fails with it
      Object.assign(this, { wanted: null, last: this.shown, changes: this.shown.changes });
    } finally {
      this.busy = false;
      this.page.draw();
    }
  }

  async ask() {
    const [wish, shown, before] = [this.wanted, this.shown, this.page.data];
    const { text, file, changes, upload = this.files.get(file) } = wish; // what-if on a file that was sent sends it again
    this.wanted = null;
    const body = JSON.stringify({ text, ...changes, upload });
    const answer = await fetch(`${this.base}/look`, { method: "POST", headers: { "Content-Type": "application/json" }, body });
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error || say`the server answered ${answer.status}`);
    if (this.wanted !== null) return; // something else is wished for by now
    if (same(changes, nothing()) || !alike(wish, shown)) this.before = null;
    else this.before ||= before;
    if (upload) this.files.set(file, upload);
    this.shown = wish;
    if (this.page.draft === text) this.page.draft = null;
    await this.page.replace(found);
    this.page.note(addressOf(wish), !wish.restored && !alike(wish, shown));
  }

  // A file of the reader's own, sent whole. Another file of the same name is another input.
  async send(file) {
    const bytes = new Uint8Array(await file.arrayBuffer());
    let text = "";
    for (let i = 0; i < bytes.length; i += 32768) text += String.fromCharCode(...bytes.subarray(i, i + 32768));
    const upload = { name: file.name, file: btoa(text) };
    return this.look({ text: file.name, file: `${file.name}/${Date.now().toString(36)}`, upload, changes: nothing() });
  }

  // What cannot even be asked for.
  refuse(line) {
    this.wrong = line;
    this.page.draw();
  }

  reset() {
    return this.run(this.shown.text, nothing());
  }
}

// No server stands behind a page opened from disk.
export function server(raw, page) {
  return raw.server ? new Server(raw, page) : null;
}
