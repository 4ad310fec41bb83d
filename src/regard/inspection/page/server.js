// Talks to the server that sent the page, if one did: a new sentence, a what-if, the fine tiles of a long map.

export class Server {
  constructor(base, page) {
    Object.assign(this, { base, page, changes: { off: [], forbid: [], temperature: 1 }, before: null, wanted: null, busy: false, wrong: "" });
  }

  // A function that fetches one tile of an inspection, as base64 text or null.
  tiles(one) {
    return async (map, head, level, i, j) => {
      const answer = await fetch(`${this.base}/tile?${new URLSearchParams({ look: one.id, map, head, level, i, j })}`);
      return (await answer.json()).data;
    };
  }

  get changed() {
    const { off, forbid, temperature } = this.changes;
    return off.length > 0 || forbid.length > 0 || temperature !== 1;
  }

  toggle(list, item) {
    const same = (other) => JSON.stringify(other) === JSON.stringify(item);
    const kept = this.changes[list].filter((other) => !same(other));
    this.changes[list] = kept.length < this.changes[list].length ? kept : [...kept, item];
  }

  has(list, item) {
    return this.changes[list].some((other) => JSON.stringify(other) === JSON.stringify(item));
  }

  // Run the sentence again with what is switched off, forbidden or cooled; the page then shows the answer.
  // What is changed while an answer is awaited is asked for after it, so the last wish is the one that is shown.
  async run(text = this.page.raw.text) {
    if (text !== this.page.raw.text) this.changes = { off: [], forbid: [], temperature: 1 };
    this.wanted = text;
    if (this.busy) return;
    this.busy = true;
    this.wrong = "";
    this.page.draw();
    try {
      while (this.wanted !== null) await this.ask();
    } catch (wrong) {
      this.wrong = wrong.message;
    } finally {
      this.busy = false;
      this.page.draw();
    }
  }

  async ask() {
    const [text, before] = [this.wanted, this.page.raw];
    this.wanted = null;
    const body = JSON.stringify({ text, ...this.changes });
    const answer = await fetch(`${this.base}/look`, { method: "POST", headers: { "Content-Type": "application/json" }, body });
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error || `the server answered ${answer.status}`);
    if (!this.changed || text !== before.text) this.before = null;
    else this.before ||= before;
    await this.page.replace(found);
  }

  reset() {
    this.changes = { off: [], forbid: [], temperature: 1 };
    return this.run();
  }
}

// No server stands behind a page opened from disk.
export function server(raw, page) {
  return raw.server ? new Server(raw.server, page) : null;
}
