/* The strategy's own figure, per node: a chart, and its last values with the exchange that
   computing did not hide. The catalogue says which strategies have one, which series it is and what
   it is called; without one (sync, asgd, softsync) there is no such row. */
import {Chart} from '../../../chart/chart.js';
import {niceRange} from '../../../chart/scale.js';
import {valueAt} from '../../../chart/smooth.js';
import {h, keyed, say, sayAll} from '../../../dom.js';
import {known, seconds, short, tick} from '../../../format.js';
import {last} from '../../../measures.js';
import {entryOf} from '../../../spec.js';
import {nothingYet} from '../../../states.js';
import {numeric, table} from '../../../widgets.js';

/** @typedef {import('../view.js').JobView} JobView */
/** @typedef {import('../model/model.js').JobModel} JobModel */
/** @typedef {Api.StrategyFigure} Figure */

/**
 * Points that have a value: an average every k steps leaves the others without.
 * @param {JobModel} data
 * @param {string} name
 * @param {string} node
 * @returns {Page.Points}
 */
function pointsOf(data, name, node) {
  const raw = data.curves.curve(name, node);
  const at = raw.x.map((x, i) => i).filter((i) => known(raw.mean[i]));
  return {x: at.map((i) => raw.x[i]), y: at.map((i) => raw.mean[i])};
}

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
   * @param {Figure} figure
   */
  constructor(view, figure) {
    this.view = view;
    this.figure = figure;
    this.format = figure.series.endsWith('_seconds') ? seconds : short;
    /** @type {{name: string, points: Page.Points}[]} */
    this.lines = [];
    this.chart = new Chart(view.group, {
      title: figure.title,
      subtitle: figure.subtitle,
      height: 150,
      yTicks: 4,
      format: tick,
      table: () => this.numbers()
    });
    this.body = h('tbody');
    this.empty = h('p', {class: 'quiet'});
    this.table = table('The strategy’s figure per node, now',
        ['Node', ...numeric(figure.head, 'Exposed exchange')], this.body, 'split-table');
    this.node =
        h('section', {'aria-label': 'What the strategy does', class: 'row'}, this.chart.node,
            h('div', {class: 'rail-side'}, h('h3', {class: 'rail-head', text: 'Now, per node'}),
                this.table, this.empty));
  }

  /** @returns {Page.ChartTable} */
  numbers() {
    const {key} = this.view;
    const {head} = this.figure;
    const rows = this.lines.flatMap(({name, points: {x, y}}) => x.map(
                                        (at, i) => [key.label(name), tick(at), this.format(y[i])]));
    return {heads: ['Node', 'Place', head], rows: rows.reverse()};
  }

  update() {
    const {data} = this.view;
    this.lines =
        data.nodes().map((name) => ({name, points: pointsOf(data, this.figure.series, name)}));
    this.drawChart();
    this.drawTable();
  }

  drawChart() {
    const {data, key, chosen} = this.view;
    const {level} = this.figure;
    const curves = this.lines.map((l) => l.points);
    const xs = curves.reduce(
        (/** @type {number[]} */ most, c) => (c.x.length > most.length ? c.x : most), []);
    const values = curves.flatMap((c) => c.y);
    const colour = (/** @type {string} */ n) => key.colour(n);
    this.chart.set({
      rows: xs.map((x) => [x, ...curves.map((c) => (c.x.length ? valueAt(c.x, c.y, x) : null))]),
      lines: this.lines.map(
          ({name}) => ({label: name, colour: colour(name), width: chosen === name ? 3 : 1.75})),
      range: niceRange(values.length ? [...values, level ?? 0] : [], {zero: true, pad: 0.15}),
      hlines: level && values.length ? [{y: level, style: 'ghost', text: 'unchanged'}] : [],
      ends: [],
      empty: xs.length ? '' : nothingYet(data.job)
    });
  }

  drawTable() {
    const {data, key} = this.view;
    const rows = (data.job.workers || []).map((w) => ({
      node: w.node,
      value: last(this.lines.find((l) => l.name === w.node)?.points.y || []),
      exchange: w.exchange_seconds
    }));
    this.table.hidden = !rows.some((r) => known(r.value));
    say(this.empty, this.table.hidden ? 'Told as soon as steps end.' : '');
    const make = (/** @type {{node: string}} */ r) => {
      const cells = [0, 1].map(() => h('td', {class: 'num'}));
      return {node: h('tr', null, h('td', null, key.label(r.node)), cells), cells};
    };
    keyed(this.body, rows, (r) => r.node + key.number(r.node), make, (row, r) => {
      const value = known(r.value) ? this.format(r.value) : 'none';
      sayAll(row.cells, [value, seconds(r.exchange)]);
    });
  }
}
