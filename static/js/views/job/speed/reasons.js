/* Why minibatches were changed: one entry per change, the newest first. */
import {h, keyed, say} from '../../../elements/dom.js';
import {nothingYet} from '../../../elements/states.js';
import {stepWord} from '../../../spec/spec.js';
import {alike, clock, plural, whole} from '../../../text/format.js';

/** @typedef {import('../view.js').JobView} JobView */
/** @typedef {import('../model/placed.js').Placed} Placed */

const MOST = 12;
const MOST_NODES = 8;

/**
 * @param {Placed} a
 * @param {Placed | undefined} before
 * @param {string} step what is counted
 */
function facts(a, before, step) {
  const [measured, predicted] = alike(a.measured_step_seconds, a.predicted_step_seconds);
  return [
    (a.restart ? 'restart, about ' : '') + step + ' ' + whole(a.at),
    a.time ? clock(a.time, true) : '',
    before && a.measured_step_seconds > 0 ? 'before ' + measured : '',
    a.predicted_step_seconds > 0 ? 'predicted ' + predicted : ''
  ].filter(Boolean)
      .join(' · ');
}

export class Reasons {
  /** @param {JobView} view */
  constructor(view) {
    this.view = view;
    this.node = h('ol',
        {class: 'reasons', id: 'reasons', tabindex: '0', 'aria-label': 'Changes of minibatches'});
    this.none = h('p', {class: 'quiet'});
  }

  draw() {
    const all = this.view.data.placed();
    const step = stepWord(this.view.data.job);
    const entries = all.map((a, i) => ({a, before: all[i - 1], i})).reverse();
    keyed(this.node, entries.slice(0, MOST),
        (e) => e.i + ':' + e.a.version + ':' + Math.round(e.a.at),
        ({a, before}) => h('li', null, h('span', {class: 'tag', text: 'v' + a.version}),
            h('div', null, h('p', {text: a.reason}), this.moves(a, before),
                h('p', {class: 'quiet', text: facts(a, before, step)}))));
    const earlier = all.length - MOST;
    const rest = earlier > 0 ? plural(earlier, 'earlier change') + ', in the table.' : '';
    say(this.none, all.length === 0 ? nothingYet(this.view.data.job) : rest);
  }

  /**
   * Each node's minibatch, and what it was where it has changed. Where there are more nodes than
   * colours: those that changed most, by name.
   * @param {Placed} a
   * @param {Placed | undefined} before
   */
  moves(a, before) {
    const {data, key} = this.view;
    const now = a.batches || {};
    const by = (/** @type {string} */ n) =>
        Math.abs(Math.log(now[n] / (before?.batches?.[n] ?? NaN)));
    const all = data.nodes().filter((n) => now[n] !== undefined);
    const moved = all.filter((n) => by(n) > 0).sort((p, q) => by(q) - by(p));
    const names = (key.many && before ? moved : all).slice(0, MOST_NODES);
    const more = (key.many && before ? moved : all).length - names.length;
    return h('p', {class: 'moves'}, names.map((n) => {
      const was = before?.batches?.[n];
      const from = was !== undefined && was !== now[n] ? was + '→' : '';
      return h('span', null, key.mark(n, 9), key.many && h('span', {class: 'quiet', text: n}),
          h('span', null, from, h('b', {text: String(now[n])})));
    }),
        more > 0 && h('span', {class: 'quiet', text: 'and ' + plural(more, 'other')}));
  }
}
