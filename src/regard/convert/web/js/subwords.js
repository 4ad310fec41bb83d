// Segmentation of one word into tokens of a vocabulary. Each function returns: characters -> [[token, number of characters]].

const UNKNOWN = 1;

// Words or characters: one token for the complete word.
export function segmentWord({ ids }) {
  return (characters) => [[ids.get(characters.join("")) ?? UNKNOWN, characters.length]];
}

// Byte pair encoding: merge the neighbors of the lowest rank, the leftmost first (Sennrich et al. 2016).
export function segmentBpe({ ids, model }) {
  const ranks = new Map(model.merges.map((merge, rank) => {
    const [left, right] = Array.isArray(merge) ? merge : merge.split(" ");
    return [`${ids.get(left)} ${ids.get(right)}`, [rank, ids.get(left + right)]];
  }));
  return (characters) => {
    const symbols = characters.map((character) => [ids.get(character) ?? UNKNOWN, 1]);
    for (;;) {
      let [best, at] = [null, -1];
      for (let i = 0; i + 1 < symbols.length; i++) {
        const merge = ranks.get(`${symbols[i][0]} ${symbols[i + 1][0]}`);
        if (merge && (!best || merge[0] < best[0])) [best, at] = [merge, i];
      }
      if (!best) return symbols;
      symbols.splice(at, 2, [best[1], symbols[at][1] + symbols[at + 1][1]]);
    }
  };
}

// Unigram language model: the most probable segmentation (Kudo 2018). Neighboring unknown characters are one token.
export function segmentUnigram({ ids, model }) {
  const scores = model.vocab.map(([, score]) => score);
  const longest = Math.max(...model.vocab.map(([name]) => Array.from(name).length));
  const unknownScore = Math.min(...scores) - 10;
  return (characters) => {
    const best = [{ score: 0, start: -1, token: -1 }];
    for (let start = 0; start < characters.length; start++) {
      const before = best[start].score;
      let name = "";
      let hasSingle = false;
      for (let stop = start + 1; stop <= Math.min(characters.length, start + longest); stop++) {
        name += characters[stop - 1];
        const token = ids.get(name);
        if (token === undefined) continue;
        const score = scores[token] + before;
        if (!best[stop] || score > best[stop].score) best[stop] = { score, start, token };
        hasSingle ||= stop === start + 1;
      }
      const unknown = before + unknownScore;
      if (!hasSingle && (!best[start + 1] || unknown > best[start + 1].score)) best[start + 1] = { score: unknown, start, token: UNKNOWN };
    }
    const tokens = [];
    for (let stop = characters.length; stop > 0; stop = best[stop].start) {
      const { token, start } = best[stop];
      if (token === UNKNOWN && tokens.length && tokens[0][0] === UNKNOWN) tokens[0][1] += stop - start;
      else tokens.unshift([token, stop - start]);
    }
    return tokens;
  };
}
