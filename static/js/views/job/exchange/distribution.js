/* How staleness is distributed over the whole run, for each node: a figure and quantiles. */
import {h, keyed, refill, sayAll} from '../../../elements/dom.js';
import {Few} from '../../../elements/few.js';
import {histogram} from '../../../elements/figures.js';
import {numeric, table} from '../../../elements/widgets.js';
import {secondsPerVersion} from '../../../measures/measures.js';
import {known, seconds, whole} from '../../../text/format.js';

/** @typedef {import('../view.js').JobView} JobView */

const LEAST_BINS = 8;

export class Distribution {
  /** @param {JobView} view */
  constructor(view) {
    this.view = view;
    this.few = new Few(() => view.draw());
    this.body = h('tbody');
    this.node = table('Staleness of each node',
        ['Distribution', ...numeric('p50', 'p95', 'Max', 'Age p95')], this.body,
        'dist dense-on-many');
  }

  /** @param {string[]} names */
  draw(names) {
    const {data, key, chosen} = this.view;
    const rows =
        names.map((node) => data.staleness.find((n) => n.node === node) || {node, histogram: []});
    const bins = Math.max(LEAST_BINS, ...rows.map((r) => (r.histogram || []).length));
    const each = secondsPerVersion(data.job);
    const shown = this.few.of(rows, (r) => r.node === chosen || key.number(r.node) > 0);
    const named = names.length > shown.length || this.few.all;
    this.node.classList.toggle('named', named); /* not beside the rows of the chart */
    keyed(this.body, shown, (r) => r.node + key.number(r.node), makeRow, (row, r) => {
      const figure = JSON.stringify(r.histogram) + bins + r.p95 + named;
      refill(row.figure, figure, () => this.figure(r, bins, named));
      row.node.classList.toggle('dim', Boolean(chosen) && chosen !== r.node);
      const age = known(each) && known(r.p95) ? seconds(r.p95 * each) : 'none';
      sayAll(row.cells, [whole(r.p50), whole(r.p95), whole(r.max), age]);
    });
  }

  /**
   * @param {Api.NodeStaleness} r
   * @param {number} bins
   * @param {boolean} named
   */
  figure(r, bins, named) {
    const {key} = this.view;
    const label = r.node + ': updates by staleness';
    return [
      h('span', {class: 'hist-name'}, key.mark(r.node, 9),
          h('span', {class: named ? 'txt' : 'sr', text: r.node})),
      histogram(r.histogram || [], bins, r.p95, key.colour(r.node), label)
    ];
  }
}

/** @param {Api.NodeStaleness} r */
function makeRow(r) {
  const cells = [0, 1, 2, 3].map((i) => h('td', {class: 'num' + (i === 1 ? ' strong' : '')}));
  const figure = h('td', {class: 'hist-cell'});
  return {node: h('tr', {data: {node: r.node}}, figure, cells), figure, cells};
}
