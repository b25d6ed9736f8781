/* The first error of a job that failed or waits for another attempt: its message with the
   surrounding lines of the log, and the errors of other ranks that follow from it, with their
   delay. */
import {fill, h, refill} from '../../../elements/dom.js';
import {icon} from '../../../elements/icons.js';
import {table} from '../../../elements/widgets.js';
import {tracebackIn} from '../../../sentences/program.js';
import {known, plural, seconds} from '../../../text/format.js';
import {fieldOf, pretty, whyOf} from '../happened/loglines.js';

/** @typedef {import('../view.js').JobView} JobView */
/** @typedef {import('../happened/logs.js').LogLine} LogLine */

const BEFORE = 3;
const MOST = 8;

/**
 * Where an error came from: rank, node, attempt, code.
 * @param {Api.JobError} e
 */
function placeOf(e) {
  return [
    known(e.rank) && e.rank >= 0 ? 'rank ' + e.rank : '', e.node ? 'on ' + e.node : '',
    e.attempt ? 'attempt ' + e.attempt : '', e.code || ''
  ].filter(Boolean)
      .join(', ');
}

/**
 * A program's output up to an error, without the times of the log.
 * @param {LogLine[]} lines of its rank
 */
const printed = (lines) =>
    lines.filter(({line}) => line.includes('msg="says"')).map(({line}) => fieldOf(line, 'line'));

/**
 * The cause among all lines in the order of time, the newest with the error's words, since those of
 * an earlier attempt may be the same; and the errors of other ranks after it.
 * @param {LogLine[]} lines
 * @param {Api.JobError} error
 */
export function causeOf(lines, error) {
  const own = lines.filter((l) => l.id === error.rank);
  const bad = own.filter((l) => l.level === 'error');
  const same = bad.filter((l) => error.message && fieldOf(l.line, 'why') === error.message);
  const cause = same.pop() || bad[0];
  const at = cause ? own.indexOf(cause) : own.length - 1;
  const since = Date.parse(cause?.at || '');
  const later =
      lines.filter((l) => l.level === 'error' && l.id !== error.rank && cause && l.at >= cause.at);
  const traceback = error.program ? tracebackIn(printed(own.slice(0, at + 1))) : [];
  return {
    lines: traceback.length ? [] : own.slice(Math.max(0, at - BEFORE), at + 1),
    traceback,
    cause,
    later: later.map((l) => ({...l, delay: (Date.parse(l.at) - since) / 1000}))
  };
}

/**
 * Whether every rank failed with the same words, so that no node is the cause.
 * @param {LogLine[]} lines of all ranks in the order of time
 * @param {Api.Job} job
 */
export function failedAlike(lines, {workers = []}) {
  const words = new Map(lines.filter((l) => l.level === 'error').map((l) => [l.id, whyOf(l.line)]));
  const said = new Set(workers.map((w) => words.get(w.rank)));
  return workers.length > 1 && said.size === 1 && Boolean([...said][0]);
}

export class FirstError {
  /** @param {JobView} view */
  constructor(view) {
    this.view = view;
    this.node = h('div', {class: 'failure-box'});
  }

  update() {
    const {job} = this.view.data;
    const error = job.state === 'failed' || job.state === 'queued' ? job.error : null;
    const lines = this.view.logs?.linesOf('all') || [];
    const found = error ? {...causeOf(lines, error), alike: failedAlike(lines, job)} : null;
    const key = error ? JSON.stringify([error, found]) : '';
    refill(this.node, key, () => error && found && [
      h('div', {class: 'first-error'},
          h('p', {class: 'first-error-head'}, icon('cross', 12), h('b', {text: 'First error'}),
              h('span', {text: placeOf(error)})),
          found.traceback.length === 0 &&
              h('pre', {class: 'mono', text: error.message || 'no message'}),
          found.traceback.length > 0 &&
              h('pre', {class: 'mono traceback', text: found.traceback.join('\n')}),
          found.lines.length > 0 && this.lines(found.lines, found.cause)),
      found.later.length > 0 && this.consequences(found.later, found.alike)
    ]);
  }

  /**
   * @param {LogLine[]} lines
   * @param {LogLine | undefined} cause
   */
  lines(lines, cause) {
    const box = h('div', {class: 'log-around mono'});
    fill(box,
        lines.map((l) => h('p', {class: l === cause ? 'log-error' : 'quiet'}, pretty(l.line))));
    return box;
  }

  /**
   * @param {(LogLine & {delay: number})[]} later
   * @param {boolean} alike with the same words, so that they do not follow from the first
   */
  consequences(later, alike) {
    const {workers = []} = this.view.data.job;
    const rows = later.slice(0, MOST).map((l) => {
      const node = workers.find((w) => w.rank === l.id)?.node || 'the launcher';
      const what = whyOf(l.line) || fieldOf(l.line, 'msg') || l.line;
      return h('tr', null, h('td', {class: 'num', text: '+' + seconds(Math.max(0, l.delay))}),
          h('td', {text: node}), h('td', {class: 'quiet', text: what}));
    });
    const one = later.length === 1;
    const text = plural(later.length, 'later error') +
        (alike        ? (one ? ' has' : ' have') + ' the same cause'
                : one ? ' is a consequence'
                      : ' are consequences');
    return h('div', {class: 'consequences'}, h('p', {class: 'quiet', text}),
        table(text, [['After', 'num'], 'Where', 'What'], h('tbody', null, rows), 'dense'));
  }
}
