// A linear-chain CRF over tags, or independent tags: the best sequence, its log probability, and the marginals of each tag.

const logSumExp = (values) => {
  const top = Math.max(...values);
  return top === -Infinity ? -Infinity : top + Math.log(values.reduce((sum, value) => sum + Math.exp(value - top), 0));
};

export class TagChain {
  // transitions: {first, follows, last}, null for a forbidden one
  constructor({ first, follows, last }, isChain) {
    const finite = (scores) => scores.map((score) => score ?? -Infinity);
    Object.assign(this, { first: finite(first), follows: follows.map(finite), last: finite(last), isChain });
  }

  // logits: an array of rows -> the best allowed tags
  best(logits) {
    let sums = logits[0].map((logit, tag) => logit + this.first[tag]);
    const pointers = [];
    for (const row of logits.slice(1)) {
      const before = row.map((_, tag) => sums.reduce((best, sum, from) => (sum + this.follows[from][tag] > sums[best] + this.follows[best][tag] ? from : best), 0));
      sums = row.map((logit, tag) => sums[before[tag]] + this.follows[before[tag]][tag] + logit);
      pointers.push(before);
    }
    const ends = sums.map((sum, tag) => sum + this.last[tag]);
    const tags = [ends.indexOf(Math.max(...ends))];
    for (const before of pointers.reverse()) tags.unshift(before[tags[0]]);
    return tags;
  }

  // Log probabilities of every tag at every position, and the log probability of a sequence.
  probabilities(logits, tags) {
    if (!this.isChain) {
      const marginals = logits.map((row) => { const total = logSumExp(row); return row.map((logit) => logit - total); });
      return { marginals, score: tags.reduce((sum, tag, i) => sum + marginals[i][tag], 0) };
    }
    const size = this.first.length;
    const range = [...Array(size).keys()];
    const forward = [logits[0].map((logit, tag) => logit + this.first[tag])];
    for (const row of logits.slice(1)) forward.push(row.map((logit, tag) => logit + logSumExp(range.map((from) => forward.at(-1)[from] + this.follows[from][tag]))));
    const backward = [this.last];
    for (const row of logits.slice(1).reverse()) backward.unshift(range.map((tag) => logSumExp(range.map((to) => this.follows[tag][to] + row[to] + backward[0][to]))));
    const total = logSumExp(range.map((tag) => forward.at(-1)[tag] + this.last[tag]));
    const marginals = forward.map((row, i) => row.map((value, tag) => value + backward[i][tag] - total));
    const score = tags.reduce((sum, tag, i) => sum + logits[i][tag] + (i ? this.follows[tags[i - 1]][tag] : this.first[tag]), this.last[tags.at(-1)]) - total;
    return { marginals, score };
  }
}
