// Recommendation: a user -> the best items with their reasons, the attention over profile and history, and that of several users to items.

import { axis, inspectionOf, item, Recorder } from "../inspection.js";
import { principalPoints } from "../projection.js";
import { topIndices } from "../search.js";
import { tensor } from "../tensor.js";
import { encodeProfile, fieldNames, parseUser } from "../user_query.js";

const STEP = 0.003; // of the state, for the slope of a score along a piece of evidence

export class Recommendation {
  constructor(model, programs) {
    Object.assign(this, { model, programs });
  }

  // A parsed query -> {id, profile: features of each field, history, ratings, times, chosen: all items of the user}
  userOf(query) {
    const { users, histories, maxHistory, newTime } = this.model;
    const profile = encodeProfile(users.fields, query.cells);
    if (query.user === null) {
      const history = query.items.slice(-maxHistory);
      return { id: 0, profile, history, ratings: history.map(() => 0), times: history.map(() => newTime), chosen: query.items };
    }
    const [start, stop] = histories.offsets.slice(query.user, query.user + 2);
    const first = Math.max(start, stop - maxHistory);
    const part = (values) => values.slice(first, stop);
    return {
      id: users.heldOut.includes(query.user) ? 0 : query.user + 1, profile,
      history: part(histories.items), ratings: part(histories.ratings), times: part(histories.times), chosen: histories.items.slice(start, stop),
    };
  }

  // Inputs of the programs `states` and `contributions`
  inputs({ id, profile, history, ratings, times }) {
    const features = profile.flat();
    const row = (Type, values) => tensor([1, values.length], Type.from(values));
    return [tensor([1], Int32Array.of(id)), row(Float32Array, features), row(Int32Array, history), row(Float32Array, ratings), row(Float32Array, times)];
  }

  state(user, context) {
    return this.programs.states.run(this.inputs(user), context)[0];
  }

  // States (m d) -> log p of all items, one array for each state
  scores(states, context = {}) {
    const [{ data, shape }] = this.programs.scores.run([states], context);
    return Array.from({ length: shape[0] }, (_, i) => Float64Array.from(data.subarray(i * shape[1], (i + 1) * shape[1])));
  }

  // The user without a piece of evidence: a field of the profile, or an item of the history
  without(user, index) {
    const { numFields } = this.model.users;
    if (index <= numFields) {
      const unknown = user.profile[index - 1].map((_, i, all) => Number(i === all.length - 1));
      return { ...user, profile: user.profile.map((field, i) => (i === index - 1 ? unknown : field)) };
    }
    const remaining = (values) => values.filter((_, i) => i !== index - 1 - numFields);
    return { ...user, history: remaining(user.history), ratings: remaining(user.ratings), times: remaining(user.times) };
  }

  // Contribution of each piece of evidence to the score of each item (tasks/recommendation/explain.py), and its attention
  contributions(user, items) {
    const [parts, weights] = this.programs.contributions.run(this.inputs(user));
    const [count, width] = parts.shape;
    const state = new Float32Array(width);
    parts.data.forEach((value, i) => { state[i % width] += value; });
    const rows = new Float32Array(2 * count * width);
    for (let r = 0; r < count; r++) for (let d = 0; d < width; d++) {
      const step = STEP * parts.data[r * width + d];
      rows[2 * r * width + d] = state[d] + step;
      rows[(2 * r + 1) * width + d] = state[d] - step;
    }
    const scores = this.scores(tensor([2 * count, width], rows));
    return { shares: items.map((index) => Array.from({ length: count }, (_, r) => (scores[2 * r][index] - scores[2 * r + 1][index]) / (2 * STEP))), weights: weights.data };
  }

  // Reasons of each item, strongest first, and its rank without the first of them
  explain(user, items, names, excluded, context) {
    const { numFields } = this.model.users;
    const { shares: raw, weights } = this.contributions(user, items);
    const isKnown = names.map((_, i) => i === 0 || i > numFields || user.profile[i - 1].at(-1) !== 1);
    const shares = raw.map((row) => {
      const positive = row.map((value, i) => (isKnown[i] ? Math.max(0, value) : 0));
      const total = Math.max(1e-9, positive.reduce((sum, value) => sum + value, 0));
      return positive.map((value) => value / total);
    });
    const ranks = new Map();
    const ranksWithout = (index) => {
      if (!ranks.has(index)) {
        const [scores] = this.scores(this.state(this.without(user, index), context), context);
        const removed = index > numFields ? [user.history[index - 1 - numFields]] : [];
        for (const other of [...excluded, ...removed]) scores[other] = -Infinity;
        ranks.set(index, items.map((own) => Math.round(0.5 + scores.filter((score) => score > scores[own]).length + scores.filter((score) => score === scores[own]).length / 2)));
      }
      return ranks.get(index);
    };
    return shares.map((row, k) => {
      const order = topIndices(row, row.length).filter((i) => i > 0 && row[i] > 0);
      return { reasons: order.map((i) => ({ position: i, name: names[i], share: row[i], weight: weights[i] })), without: order.length ? ranksWithout(order[0])[k] : null };
    });
  }

  // States and names of other users, next to this user
  otherUsers(user, context) {
    const { others, users, limits } = this.model;
    const shown = others.filter((other) => other !== user).slice(0, limits.otherUsers);
    const cells = (other) => Object.fromEntries(users.fields.map(({ name }) => [name, users.cells[name][other]]));
    return { states: shown.map((other) => this.state(this.userOf({ user: other, cells: cells(other) }), context)), names: shown.map((other) => `user ${users.ids[other]}`) };
  }

  inspect({ text, options, changes }) {
    const { users, items: { titles, popular }, limits } = this.model;
    const query = parseUser(text, users, this.model.items.names);
    const user = this.userOf(query);
    const recorder = new Recorder(this.model, changes);
    const axes = { queries: { history: "history", moments: "moments", users: "users" }, keys: { history: "history", items: "items" } };
    const silent = recorder.silent(axes);
    const names = ["anyone", ...fieldNames(users.fields.slice(0, users.numFields), query.cells), ...user.history.map((index) => titles[index])];
    const startedAt = performance.now();
    const state = this.state(user, recorder.context(axes));
    const excluded = options.include_seen ? [] : user.chosen;
    const [scores] = this.scores(state, silent);
    const logProbs = scores.slice();
    for (const index of excluded) scores[index] = -Infinity;
    const count = Math.max(0, Math.min(options.n ?? this.model.options.properties.n.default, titles.length - new Set(excluded).size));
    const items = topIndices(scores, count);
    const explanations = this.explain(user, items, names, excluded, silent);
    const seconds = (performance.now() - startedAt) / 1000;
    const shown = [...new Set([...items, ...popular.slice(0, limits.mapItems)])].slice(0, Math.max(limits.mapItems, items.length));
    const others = this.otherUsers(query.user, silent);
    const width = state.shape[1];
    const rows = tensor([1 + others.states.length, width], Float32Array.from([state, ...others.states].flatMap(({ data }) => Array.from(data))));
    this.programs.context.run([rows, tensor([shown.length], Int32Array.from(shown))], recorder.context(axes));
    const name = query.user === null ? "a new user" : `user ${users.ids[query.user]}`;
    const [evidence, judged] = [names.map((part, i) => item(part, i ? {} : { special: true })), shown.map((index) => item(titles[index]))];
    return inspectionOf(recorder, {
      text, title: name, seconds, views: ["recommendation"],
      axes: {
        history: axis(evidence, "profile and history"), moments: axis(["before the first", ...names.slice(1 + users.numFields)].map((part) => item(part)), "moments"),
        users: axis([name, ...others.names].map((part) => item(part)), "users"), items: axis(judged, "items"), judged: axis(judged, "items that are judged"),
      },
      outputs: items.map((index) => ({ text: titles[index], score: logProbs[index], rank: logProbs[index], tokens: [{ text: titles[index], score: logProbs[index], alternatives: [] }] })),
      extra: { recommendation: this.picture(query, user, items.map((index, k) => ({ index, score: logProbs[index], ...explanations[k] }))) },
    });
  }

  // What the view draws: the profile, the history, the list, and items in two dimensions
  picture(query, user, list) {
    const { users, items: { titles, about, popular }, limits } = this.model;
    const drawn = [...new Set([...list.map(({ index }) => index), ...user.history, ...popular])].slice(0, limits.points);
    const [vectors] = this.programs.vectors.run([tensor([drawn.length], Int32Array.from(drawn))]);
    const rows = drawn.map((_, i) => Array.from(vectors.data.subarray(i * vectors.shape[1], (i + 1) * vectors.shape[1])));
    return {
      user: query.user === null ? "" : users.ids[query.user],
      fields: users.fields.map((field) => ({ name: field.name, kind: field.kind, value: query.cells[field.name] ?? "", values: field.values.slice(0, limits.values) })),
      history: user.history.map((index) => titles[index]),
      list: list.map(({ index, score, reasons, without }) => ({ title: titles[index], score, about: about[index], without, reasons: reasons.slice(0, limits.reasons) })),
      remarks: query.remarks, titles: titles.slice(0, limits.titles),
      items: { titles: drawn.map((index) => titles[index]), points: principalPoints(rows), recommended: list.length, seen: user.history.length },
    };
  }
}
