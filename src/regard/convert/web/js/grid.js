// The grid of four voices: one token (a pitch or a rest) per voice and time step, see regard/data/music/grid_encoding.py.

const REST = 4;
const EOS = 3;
const SILENT = -1;
const VOICES = 4;
const NAMES = ["soprano", "alto", "tenor", "bass"];
const MAX_OVERLAP = 0.25; // quarters by which successive notes of one line may overlap

// Half to even, as Python rounds.
function round(value) {
  const low = Math.floor(value);
  return value - low === 0.5 ? low + (low % 2) : Math.round(value);
}

const byTime = (a, b) => a.start - b.start || a.end - b.end || a.pitch - b.pitch || a.velocity - b.velocity || a.voice - b.voice;

function trimLegato(notes) {
  const trimmed = [...notes].sort(byTime);
  const ordered = [...trimmed];
  ordered.slice(0, -1).forEach((note, i) => {
    const following = ordered[i + 1];
    const overlap = note.end - following.start;
    if (following.start > note.start && overlap > 0 && overlap < Math.min(MAX_OVERLAP, (note.end - note.start) / 2)) trimmed[i] = { ...note, end: following.start };
  });
  return trimmed;
}

function isOneLine(notes) {
  const line = trimLegato(notes);
  return new Set(line.map(({ voice }) => voice)).size === 1 && line.slice(0, -1).every((note, i) => note.end <= line[i + 1].start);
}

// Parts from the highest to the lowest: by name, else by mean pitch.
function partsByPitch(notes, names) {
  const parts = new Map();
  for (const { voice, pitch } of notes) parts.set(voice, [...(parts.get(voice) ?? []), pitch]);
  const named = new Map([...parts.keys()].filter((part) => part < names.length).map((part) => [names[part].trim().toLowerCase(), part]));
  if (parts.size === VOICES && named.size === VOICES && NAMES.every((name) => named.has(name))) return NAMES.map((name) => named.get(name));
  const mean = (part) => parts.get(part).reduce((sum, pitch) => sum + pitch, 0) / parts.get(part).length;
  return [...parts.keys()].sort((a, b) => mean(b) - mean(a) || a - b);
}

// Pitches from high to low -> [[voice, pitch]] for at most four of them.
function assignVoices(pitches, previous) {
  const nearest = (voices, pitch) => voices.reduce((best, voice) => (Math.abs(previous[voice] - pitch) < Math.abs(previous[best] - pitch) ? voice : best), voices[0]);
  const middle = Math.floor(pitches.length / 2);
  if (pitches.length >= 4) return [pitches[0], pitches[middle - 1], pitches[middle], pitches.at(-1)].map((pitch, voice) => [voice, pitch]);
  if (pitches.length === 3) return [[0, pitches[0]], [nearest([1, 2], pitches[1]), pitches[1]], [3, pitches[2]]];
  if (pitches.length === 2) return [[0, pitches[0]], [3, pitches[1]]];
  return pitches.length ? [[nearest([0, 1, 2, 3], pitches[0]), pitches[0]]] : [];
}

export class Grid {
  // settings: {low, high, resolution, tempo, voices, size}
  constructor(settings) {
    Object.assign(this, settings);
  }

  withTempo(tempo) {
    return new Grid({ ...this, tempo: tempo ?? this.tempo });
  }

  get stepSeconds() {
    return 60 / this.tempo / this.resolution;
  }

  // Notes of a file in quarters -> tokens
  encode({ notes, names }) {
    const inRange = notes.filter(({ pitch }) => pitch >= this.low && pitch <= this.high);
    if (!inRange.length) throw new Error(`no note lies in ${this.low} … ${this.high}, the range of this grid; transpose it`);
    const lineNotes = isOneLine(inRange) ? trimLegato(inRange) : inRange;
    const timed = lineNotes.map((note) => {
      const start = round(note.start * this.resolution);
      return { ...note, from: start, to: Math.max(start + 1, round(note.end * this.resolution)) };
    });
    const grid = Array.from({ length: Math.max(...timed.map(({ to }) => to)) }, () => new Array(VOICES).fill(SILENT));
    const parts = partsByPitch(inRange, names);
    if (isOneLine(inRange)) for (const { from, to, pitch } of timed) for (let step = from; step < to; step++) grid[step][0] = pitch;
    else if (parts.length === VOICES) for (const { from, to, pitch, voice } of [...timed].sort((a, b) => a.from - b.from || a.pitch - b.pitch)) for (let step = from; step < to; step++) grid[step][parts.indexOf(voice)] = pitch;
    else this.assign(grid, timed);
    return grid.flat().map((pitch) => (pitch === SILENT ? REST : pitch - this.low + REST + 1));
  }

  assign(grid, timed) {
    const sounding = grid.map(() => new Set());
    for (const { from, to, pitch } of timed) for (let step = from; step < to; step++) sounding[step].add(pitch);
    const previous = [72, 65, 57, 48];
    sounding.forEach((pitches, step) => {
      for (const [voice, pitch] of assignVoices([...pitches].sort((a, b) => b - a), previous)) grid[step][voice] = previous[voice] = pitch;
    });
  }

  pitchOf(token) {
    return token <= REST ? SILENT : token - REST - 1 + this.low;
  }

  label(token, position, pitchNames) {
    return `${this.voices[position % VOICES][0]} ${token <= REST ? "rest" : pitchNames[this.pitchOf(token)]}`;
  }

  // Tokens of complete steps -> [start, end, pitch, voice, velocity] in seconds
  notes(tokens) {
    const steps = Math.floor(tokens.length / VOICES);
    const notes = [];
    const seconds = (step) => Math.round(step * this.stepSeconds * 1e4) / 1e4;
    for (let voice = 0; voice < VOICES; voice++) {
      const pitch = (step) => this.pitchOf(tokens[step * VOICES + voice]);
      for (let start = 0, step = 1; step <= steps; step++) {
        if (step < steps && pitch(step) === pitch(start)) continue;
        if (pitch(start) !== SILENT) notes.push([seconds(start), seconds(step), pitch(start), voice, 80]);
        start = step;
      }
    }
    return notes.sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2] || a[3] - b[3]);
  }

  // Tokens that may follow: complete steps, then EOS between two steps; at the limit EOS alone.
  grammar(prefixLength, maxLength) {
    return (tokens) => {
      const position = prefixLength + tokens.length;
      const isBetween = position % VOICES === 0;
      return Array.from({ length: this.size }, (_, token) => (position >= maxLength && isBetween ? token === EOS : token >= REST || (isBetween && token === EOS)));
    };
  }

  maxTokens(seconds) {
    return Math.max(1, round(seconds / this.stepSeconds)) * VOICES;
  }
}
