/* Lines of a log (logfmt) as people read them. Pure. */

/** @typedef {string | number} Source  a rank, or 'launcher' */

/**
 * Lines by where they come from, of an answer that has all logs: "rank-0: ts=…".
 * @param {string} text
 */
export function logsOf(text) {
  /** @type {Map<Source, string[]>} */
  const logs = new Map();
  for (const told of text.split('\n')) {
    const [, name, rank, line] = /^(launcher|rank-(\d+)): (.*)$/.exec(told) || [];
    if (name) {
      const source = rank === undefined ? name : Number(rank);
      const lines = logs.get(source) || [];
      logs.set(source, lines);
      lines.push(line);
    }
  }
  return logs;
}

/**
 * @param {string} line
 * @param {RegExp} pattern
 */
function first(line, pattern) {
  return pattern.exec(line)?.[1] || '';
}

/** @param {string} line */
export const levelOf = (line) => first(line, /(?:^|\s)level=(\w+)/);

/** @param {string} line */
export const timeOf = (line) => first(line, /(?:^|\s)ts=(\S+)/);

/** @type {Record<string, string>} */
const ESCAPED = {
  n: '\n',
  t: '\t'
};

/**
 * The value of a field, without its quotes.
 * @param {string} line
 * @param {string} name
 */
export function fieldOf(line, name) {
  const found = new RegExp('(?:^|\\s)' + name + '=(?:"((?:[^"\\\\]|\\\\.)*)"|(\\S+))').exec(line);
  return (found?.[1] ?? found?.[2] ?? '').replace(/\\(.)/g, (_, c) => ESCAPED[c] ?? c);
}

/**
 * Why something failed, as a line tells; of a user's program, what it said last.
 * @param {string} line
 */
export const whyOf = (line) => fieldOf(line, 'said') || fieldOf(line, 'why');

const RESTORED = 'msg="restored from a checkpoint"';

/**
 * Where attempts went on from a checkpoint, by the keeper's log: when, and at which step.
 * @param {Map<Source, string[]>} logs
 */
export function resumedIn(logs) {
  return [...logs.values()].flat().filter((line) => line.includes(RESTORED)).map((line) => ({
    at: Date.parse(timeOf(line)),
    step: Number(fieldOf(line, 'version'))
  }));
}

/**
 * ts=… level=info mod=worker rank=2 msg="ready" → 15:16:04 info worker: ready
 * @param {string} line
 */
export function pretty(line) {
  const ts = timeOf(line);
  const msg = /(?:^|\s)msg=(?:"((?:[^"\\]|\\.)*)"|(\S+))/.exec(line);
  if (!ts || !msg) {
    return line;
  }
  const t = new Date(ts);
  const clock = Number.isNaN(t.getTime()) ? ts : t.toTimeString().slice(0, 8);
  const mod = first(line, /(?:^|\s)mod=(\S+)/);
  const told = /(?:^|\s)(ts|level|mod|msg|job|said)=(?:"(?:[^"\\]|\\.)*"|\S+)/g;
  const rest = line.replace(told, '').trim();
  return clock + ' ' + levelOf(line) + ' ' + (mod ? mod + ': ' : '') + (msg[1] ?? msg[2]) +
      (rest ? '  ' + rest : '');
}
