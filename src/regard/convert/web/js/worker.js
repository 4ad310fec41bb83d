// The worker of the page: one message with the model file, then requests, each answered by one message.

import { Engine } from "./engine.js";

export function start() {
  let engine = null;
  let file = null;
  globalThis.onmessage = async ({ data }) => {
    if (data.file) {
      file = data.file;
      return;
    }
    try {
      engine ??= new Engine(JSON.parse(file));
      globalThis.postMessage({ id: data.id, result: await engine.inspect(data.request) });
    } catch (error) {
      globalThis.postMessage({ id: data.id, error: error.message });
    }
  };
}
