// The connection for new inputs: the server that sent the page, the model inside the page, or none.

import { LocalModel } from "./local_model.js";
import { Server } from "./server.js";

export function createConnection(raw, page) {
  if (raw.server) return new Server(raw, page);
  return raw.hasModel ? new LocalModel(raw, page) : null;
}
