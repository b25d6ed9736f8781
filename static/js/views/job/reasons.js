/* Why minibatches were changed: one entry per change, the newest first. */
import {h, keyed, say} from '../../dom.js';
import {clock, seconds, whole} from '../../format.js';

/** @typedef {import('./view.js').JobView} JobView */
/** @typedef {import('./model.js').Placed} Placed */

const MOST = 12;
const MOST_NODES = 8;

/**
 * @param {Placed} a
 * @param {Placed | undefined} before
 */
function facts(a, before) {
  return [
    (a.restart ? 'restart, about step ' : 'step ') + whole(a.at), a.time ? clock(a.time, true) : '',
    before && a.measured_step_seconds > 0 ? 'as it was: ' + seconds(a.measured_step_seconds) : '',
    a.predicted_step_seconds > 0 ? 'predicted ' + seconds(a.predicted_step_seconds) : ''
  ].filter(Boolean)
      .join(' · ');
}

export class Reasons {
  /** @param {JobView} view */
  constructor(view) {
    this.view = view;
    this.node = h('ol', {class: 'reasons', id: 'reasons'});
    this.none = h('p', {class: 'quiet'});
  }

  draw() {
    const all = this.view.data.placed();
    const entries = all.map((a, i) => ({a, before: all[i - 1], i})).reverse();
    keyed(this.node, entries.slice(0, MOST),
        (e) => e.i + ':' + e.a.version + ':' + Math.round(e.a.at),
        ({a, before}) => h('li', null, h('span', {class: 'tag', text: 'v' + a.version}),
            h('div', null, h('p', {text: a.reason}), this.moves(a, before),
                h('p', {class: 'quiet', text: facts(a, before)}))));
    const earlier = all.length - MOST;
    const rest = earlier > 0 ? 'The ' + earlier + ' earlier ones are in the table.' : '';
    say(this.none, all.length === 0 ? 'No minibatches have been given out yet.' : rest);
  }

  /**
   * Each node's minibatch, and what it was where it has changed.
   * @param {Placed} a
   * @param {Placed | undefined} before
   */
  moves(a, before) {
    const {data, key} = this.view;
    const now = a.batches || {};
    const names = data.nodes().filter((n) => now[n] !== undefined).slice(0, MOST_NODES);
    return h('p', {class: 'moves'}, names.map((n) => {
      const was = before?.batches?.[n];
      const from = was !== undefined && was !== now[n] ? was + '→' : '';
      return h('span', null, key.mark(n, 9), h('span', null, from, h('b', {text: String(now[n])})));
    }));
  }
}
