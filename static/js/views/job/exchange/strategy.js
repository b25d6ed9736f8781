/* The strategy's own figure, per node: a chart, and its last values with the exchange that
   computing did not hide. The catalogue says which strategies have one, which series it is and what
   it is called; without one (sync, asgd, softsync) there is no such row. */
import {h, keyed, say, sayAll} from '../../../elements/dom.js';
import {noneYet} from '../../../elements/states.js';
import {numeric, table} from '../../../elements/widgets.js';
import {entryOf} from '../../../spec/spec.js';
import {known, seconds} from '../../../text/format.js';
import {FigureChart} from '../figure.js';

/** @typedef {import('../view.js').JobView} JobView */

/** @implements {Page.Part} */
export class StrategyFigure {
  /** @param {JobView} view */
  constructor(view) {
    const figure = entryOf(view.data.strategies, view.data.job.spec)?.figure;
    this.shown = figure ? new Shown(view, figure) : null;
    this.node = this.shown ? this.shown.node : h('div', {hidden: true});
  }

  update() {
    this.shown?.update();
  }
}

/* The row of a strategy that has a figure. */
class Shown {
  /**
   * @param {JobView} view
   * @param {Api.StrategyFigure} figure
   */
  constructor(view, figure) {
    this.view = view;
    this.chart = new FigureChart(view, figure);
    this.body = h('tbody');
    this.empty = h('p', {class: 'quiet'});
    this.table = table('The strategy’s figure per node, now',
        ['Node', ...numeric(figure.head, 'Exposed exchange')], this.body, 'split-table');
    this.node =
        h('section', {'aria-label': 'What the strategy does', class: 'row'}, this.chart.node,
            h('div', {class: 'rail-side'}, h('h3', {class: 'rail-head', text: 'Now, per node'}),
                this.table, this.empty));
  }

  update() {
    this.chart.update();
    this.drawTable();
  }

  drawTable() {
    const {data, key} = this.view;
    const rows = (data.job.workers || [
    ]).map((w) => ({node: w.node, value: this.chart.newest(w.node), exchange: w.exchange_seconds}));
    this.table.hidden = !rows.some((r) => known(r.value));
    say(this.empty,
        this.table.hidden ? noneYet(data.job.state, 'Shown as soon as steps have ended.') : '');
    const make = (/** @type {{node: string}} */ r) => {
      const cells = [0, 1].map(() => h('td', {class: 'num'}));
      return {node: h('tr', null, h('td', null, key.label(r.node)), cells), cells};
    };
    keyed(this.body, rows, (r) => r.node + key.number(r.node), make, (row, r) => {
      const value = known(r.value) ? this.chart.format(r.value) : 'none';
      sayAll(row.cells, [value, seconds(r.exchange)]);
    });
  }
}
