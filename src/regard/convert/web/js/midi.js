// Notes of a MIDI file in quarters, by the rules of regard/data/music/midi.py: one voice per track and channel, drums are ignored.

const DRUMS = 9;
const DEFAULT_TEMPO = 120;

class Reader {
  constructor(bytes) {
    Object.assign(this, { bytes, at: 0 });
  }

  byte() {
    if (this.at >= this.bytes.length) throw new Error("a damaged or truncated MIDI file; export it again");
    return this.bytes[this.at++];
  }

  number(width) {
    let value = 0;
    for (let i = 0; i < width; i++) value = value * 256 + this.byte();
    return value;
  }

  variable() {
    let value = 0;
    for (;;) {
      const byte = this.byte();
      value = value * 128 + (byte & 127);
      if (byte < 128) return value;
    }
  }

  text(length) {
    return String.fromCharCode(...Array.from({ length }, () => this.byte()));
  }
}

// Events of one track: notes by channel, pedals, tempos and the name
function readTrack(reader, stop) {
  const track = { name: "", tempos: [], channels: new Map() };
  const channelOf = (channel) => {
    if (!track.channels.has(channel)) track.channels.set(channel, { notes: [], sounding: new Map(), pedals: [], down: null });
    return track.channels.get(channel);
  };
  let [time, status] = [0, 0];
  const end = (part, pitch) => {
    const note = part.sounding.get(pitch)?.shift();
    if (note) note.end = time;
  };
  while (reader.at < stop) {
    time += reader.variable();
    if (reader.bytes[reader.at] & 128) status = reader.byte();
    if (status === 0xff) {
      const kind = reader.byte();
      const length = reader.variable();
      if (kind === 0x51 && length === 3) track.tempos.push([time, 60e6 / reader.number(3)]);
      else if (kind === 0x03) track.name = reader.text(length);
      else reader.at += length;
      continue;
    }
    if (status === 0xf0 || status === 0xf7) {
      reader.at += reader.variable();
      continue;
    }
    const [command, part] = [status >> 4, channelOf(status & 15)];
    const first = reader.byte();
    const second = command === 0xc || command === 0xd ? 0 : reader.byte();
    if (command === 0x9 && second > 0) {
      const note = { start: time, end: null, pitch: first, velocity: second };
      part.notes.push(note);
      if (!part.sounding.has(first)) part.sounding.set(first, []);
      part.sounding.get(first).push(note);
    } else if (command === 0x8 || command === 0x9) end(part, first);
    else if (command === 0xb && first === 64) {
      if (second >= 64) part.down ??= time;
      else if (part.down !== null) {
        part.pedals.push([part.down, time]);
        part.down = null;
      }
    }
  }
  return track;
}

// End notes where the next of the same pitch starts; of equal starts the longest stays.
function trimOverlaps(notes) {
  const trimmed = [];
  const last = new Map();
  for (const note of [...notes].sort((a, b) => a.start - b.start || a.pitch - b.pitch || b.end - a.end)) {
    const previous = last.get(note.pitch);
    if (previous && previous.end > note.start) {
      if (previous.start === note.start) continue;
      previous.end = note.start;
    }
    const kept = { ...note };
    last.set(note.pitch, kept);
    trimmed.push(kept);
  }
  return trimmed;
}

// Extend notes that end while the pedal is down until it is released.
function sustain(notes, pedals) {
  return trimOverlaps(notes.map((note) => {
    const pedal = pedals.filter(([down]) => down <= note.end).at(-1);
    return pedal && pedal[1] > note.end ? { ...note, end: pedal[1] } : note;
  }));
}

// Bytes of a MIDI file -> {notes: [{start, end, pitch, velocity, voice}] in quarters, tempo, names}
export function readMidi(bytes) {
  const reader = new Reader(bytes);
  if (bytes.length < 14 || reader.text(4) !== "MThd") throw new Error("not a MIDI file, which starts with MThd; export it again as MIDI");
  const length = reader.number(4);
  reader.number(2);
  const count = reader.number(2);
  const ticks = reader.number(2);
  reader.at = 8 + length;
  if (ticks & 0x8000 || !ticks) throw new Error("times in frames are not supported; export it again as MIDI");
  const tracks = [];
  for (let i = 0; i < count && reader.at < bytes.length; i++) {
    const kind = reader.text(4);
    const stop = reader.number(4) + reader.at;
    if (kind === "MTrk") tracks.push(readTrack(reader, Math.min(stop, bytes.length)));
    reader.at = stop;
  }
  const tempo = tracks.flatMap((track) => track.tempos).sort((a, b) => a[0] - b[0])[0]?.[1] ?? DEFAULT_TEMPO;
  const parts = tracks.flatMap(({ name, channels }) => [...channels].filter(([channel, part]) => channel !== DRUMS && part.notes.length).map(([, part]) => ({ name, ...part })));
  if (!parts.length) throw new Error("contains no notes (drums do not count); give a file with a melody");
  const quarters = (from, to) => { const start = Math.fround(from / ticks); return [start, start + Math.fround((to - from) / ticks)]; }; // float32, as the library of Python
  const timed = (own) => own.filter((note) => note.end !== null).map((note) => { const [start, end] = quarters(note.start, note.end); return { ...note, start, end }; });
  const notes = parts.flatMap(({ notes: own, pedals }, voice) => sustain(trimOverlaps(timed(own)), pedals.map(([down, up]) => quarters(down, up))).map((note) => ({ ...note, voice })));
  notes.sort((a, b) => a.start - b.start || a.end - b.end || a.pitch - b.pitch || a.velocity - b.velocity || a.voice - b.voice);
  return { notes, tempo: tempo >= 5 && tempo <= 1000 ? tempo : null, names: parts.map(({ name }) => name) };
}
