/* The list of programs that ended and were restarted; empty where there is none. */
import {h, keyed, say} from '../../../elements/dom.js';
import {active} from '../../../elements/states.js';
import {scroller, table} from '../../../elements/widgets.js';
import {clock, known, plural, seconds} from '../../../text/format.js';

/** @typedef {import('../view.js').JobView} JobView */

/** @implements {Page.Part} */
export class CrashList {
  /** @param {JobView} view */
  constructor(view) {
    this.view = view;
    this.count = h('span', {class: 'note'});
    this.body = h('tbody');
    const list = table('Programs that were started again',
        ['When', 'Node', 'What happened', ['Back after', 'num']], this.body, 'dense');
    this.node = h('section', {'aria-label': 'Programs started again', id: 'crashes', hidden: true},
        h('div', {class: 'row-title'}, h('h2', {text: 'Programs started again'}), this.count),
        scroller('Programs started again, table', list));
  }

  update() {
    const crashes = this.view.data.crashes.list;
    this.node.hidden = crashes.length === 0;
    const back = crashes.filter((c) => known(c.back)).length;
    const away = active(this.view.data.job.state) ? 'not yet' : 'never';
    say(this.count,
        plural(crashes.length, 'time') +
            (back === crashes.length ? '; the other nodes went on'
                                     : ', ' + back + ' of them came back'));
    keyed(this.body, [...crashes].reverse(), (c) => c.rank + c.at, (c) => this.makeRow(c),
        ({back}, c) => say(back, known(c.back) ? seconds(c.back - c.time) : away));
  }

  /** @param {import('./crashes.js').Crash} c */
  makeRow(c) {
    const back = h('td', {class: 'num'});
    const node = h('tr', null, h('td', {text: clock(c.at, true)}),
        h('td', null, this.view.key.label(c.node)), h('td', {text: c.message}), back);
    return {node, back};
  }
}
