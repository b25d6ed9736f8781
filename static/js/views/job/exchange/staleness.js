/* Staleness: versions a gradient is behind when it is applied. Up to eight nodes: a strip over
   time each, all on one scale from 0; more: a row of heat each. Beside it the distribution. Under
   a strategy in which all workers exchange at every step no gradient is late, and a sentence says
   so instead. */
import {valueAt, visible} from '../../../chart/smooth.js';
import {fill, h, say} from '../../../elements/dom.js';
import {scroller, table, tableButton} from '../../../elements/widgets.js';
import {entryOf, stepWord} from '../../../spec/spec.js';
import {capital, known, mean, tick, whole} from '../../../text/format.js';

import {Distribution} from './distribution.js';
import {HeatRows} from './heat.js';
import {equalMean, Strips} from './strips.js';

/** @typedef {import('../view.js').JobView} JobView */

const MEANING = 'versions a gradient is behind when it is applied';
const CALM = 'All workers exchange at every step, so no gradient is ever late: staleness is 0.';
const TABLE_ROWS = 200;

/**
 * How many points the fullest curve shows.
 * @param {Page.Curve[]} curves
 */
function pointsNote(curves) {
  const most = Math.max(-1, ...curves.map((c) => c.total));
  const any = curves.find((c) => c.total === most);
  if (!any || any.x.length === 0) {
    return '';
  }
  return any.x.length < any.total ? 'up to ' + whole(any.x.length) + ' of ' + whole(any.total) +
          ' points per node, extremes kept'
                                  : 'every point';
}

/** @implements {Page.Part} */
export class Staleness {
  /** @param {JobView} view */
  constructor(view) {
    this.view = view;
    this.table = scroller('Numbers of the staleness', null, 'chart-table');
    this.table.hidden = true;
    const tool = tableButton(this.table, () => this.drawTable());
    this.strips = new Strips(view, () => tool.click());
    this.heat = new HeatRows(view);
    this.distribution = new Distribution(view);
    this.note = h('span', {class: 'count'});
    this.sub = h('span', {class: 'note', text: MEANING});
    this.calm = h('p', {class: 'sub calm', hidden: true});
    this.foot = h('p', {class: 'quiet small-note'});
    const head = h('div', {class: 'row-title'}, h('h2', {text: 'Staleness'}), this.sub,
        h('span', {class: 'tools'}, this.note, tool));
    this.node = h('section', {'aria-label': 'Staleness', class: 'row staleness'},
        h('div', null, head, this.calm, this.strips.node, this.heat.node, this.heat.foot,
            this.table),
        h('div', {class: 'rail-side'}, this.distribution.node, this.distribution.few.node,
            this.foot));
  }

  /** @param {Set<string>} what */
  update(what) {
    const {data, group, key} = this.view;
    const names = data.nodes();
    const curves = names.map((n) => data.curves.curve('staleness', n));
    const shown = curves.flatMap((c) => visible(c.x, group.window()).map((i) => c.max[i]));
    const most = Math.max(0, ...shown.filter(known));
    const own = entryOf(data.strategies, data.job.spec);
    const together = own?.replicas === 'alike' && most === 0;
    say(this.sub, MEANING + (most > 0 ? ', 0 to ' + most : ''));
    say(this.calm, together ? CALM : '');
    this.show(together, key.many, names.length > 0);
    if (!together) {
      (key.many ? this.heat : this.strips).draw(names, most);
      this.distribution.draw(names);
    }
    say(this.note, together ? '' : pointsNote(curves));
    say(this.foot, together || !names.length ? '' : this.footText(names));
    if (!this.table.hidden && (what.has('series') || what.has('all'))) {
      this.drawTable();
    }
  }

  /**
   * @param {boolean} together
   * @param {boolean} many
   * @param {boolean} any
   */
  show(together, many, any) {
    this.calm.hidden = !together;
    this.strips.node.hidden = many || together;
    this.heat.node.hidden = this.heat.foot.hidden = !many || together;
    this.distribution.node.hidden = together || !any;
    this.distribution.few.node.hidden ||= together;
    this.node.classList.toggle('many', many);
    this.node.classList.toggle('is-calm', together);
  }

  /** @param {string[]} names */
  footText(names) {
    const equal = names.some((n) => known(equalMean(this.view.data, n)));
    return 'Counted over the whole run. Dotted in the figures: p95' +
        (equal ? '; dotted in the strips: the mean while the split was equal.' : '.');
  }

  drawTable() {
    const {data, group, key} = this.view;
    const names = data.nodes();
    const curves = names.map((n) => data.curves.curve('staleness', n));
    const all = new Set(curves.flatMap((c) => c.x));
    const xs = [...all].sort((p, q) => q - p).slice(0, TABLE_ROWS);
    const rows = xs.map(
        (x) => h('tr', null, h('td', {text: tick(x)}),
            curves.map((c) => h('td', {class: 'num', text: mean(valueAt(c.x, c.mean, x, true))}))));
    const heads = names.map((n) => h('th', {class: 'num', scope: 'col'}, key.label(n)));
    fill(this.table,
        table('Staleness of each node, newest first',
            [group.axis === 'step' ? capital(stepWord(data.job)) : group.axis, ...heads],
            h('tbody', null, rows), 'dense'));
  }
}
