/* The rail beside a chart: what the lines are, and their values now or under the reading line. */
import {h, keyed, s, say} from '../../../elements/dom.js';
import {active} from '../../../elements/states.js';
import {isVirtual} from '../../../measures/measures.js';
import {stepWord} from '../../../spec/spec.js';
import {clock, seconds, tick, whole} from '../../../text/format.js';

/** @typedef {import('../view.js').JobView} JobView */
/** @typedef {{kind?: string, colour?: string, label: string, value: string}} Entry */

/**
 * A piece of the line that an entry speaks of.
 * @param {Entry} entry
 */
function sample({kind = 'none', colour = 'var(--ink)'}) {
  const line = kind === 'none' ? null : s('line', {x1: 0, x2: 16, y1: 5, y2: 5});
  const svg = s('svg',
      {viewBox: '0 0 16 10', width: 16, height: 10, class: 'sample ' + kind, 'aria-hidden': 'true'},
      kind === 'band' ? s('rect', {x: 0, y: 1.5, width: 16, height: 7, rx: 1}) : line);
  svg.style.color = colour;
  return svg;
}

/** @param {Entry} e */
function makeRow(e) {
  const value = h('dd');
  return {node: h('div', null, h('dt', null, sample(e), h('span', {text: e.label})), value), value};
}

export class Rail {
  /** @param {boolean} [heading] */
  constructor(heading = true) {
    this.head = h('h3', {class: 'rail-head', hidden: !heading, 'aria-live': 'off'});
    this.list = h('dl', {class: 'rail'});
    this.node = h('div', {class: 'rail-box'}, heading && this.head, this.list);
  }

  /**
   * @param {string} title
   * @param {Entry[]} entries
   */
  set(title, entries) {
    say(this.head, title);
    keyed(this.list, entries, (e) => e.label, makeRow, (row, e) => say(row.value, e.value));
  }
}

/**
 * "Now", or where the reading line is.
 * @param {JobView} view
 */
export function headingOf({group, data}) {
  const x = group.hoverX;
  const {job} = data;
  if (x === null) {
    const last = job.finished ? 'At the end' : 'When it last ran';
    return active(job.state) ? 'Now' : last;
  }
  if (group.axis === 'step') {
    const {stepsPerEpoch} = data.curves;
    const epoch = Math.min(job.progress?.epochs || Infinity, Math.floor(x / stepsPerEpoch) + 1);
    return 'At ' + stepWord(job) + ' ' + whole(x) + (stepsPerEpoch ? ', epoch ' + epoch : '');
  }
  if (group.axis === 'time' && isVirtual(job)) {
    return 'After ' + seconds(x) + ' of virtual time';
  }
  if (group.axis === 'time') {
    const at = job.started ? new Date(Date.parse(job.started) + x * 1000) : null;
    return 'After ' + seconds(x) + (at ? ', ' + clock(at, true) : '');
  }
  return 'After ' + tick(Math.round(x)) + ' samples';
}
