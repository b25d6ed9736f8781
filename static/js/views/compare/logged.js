/* A chart for each metric that the programs of these runs logged, a line for each run. */
import {Chart} from '../../chart/chart.js';
import {niceRange} from '../../chart/scale.js';
import {union} from '../../chart/smooth.js';
import {NamedCharts} from '../../elements/namedcharts.js';
import {last} from '../../measures/measures.js';
import {ending, known, place, plain, tick} from '../../text/format.js';

import {endOf, letterOf, lineOf} from './letters.js';

/** @typedef {import('../../chart/group.js').ChartGroup} ChartGroup */
/** @typedef {import('./model.js').CompareModel} CompareModel */

/** @implements {Page.Part} */
export class LoggedCharts {
  /**
   * @param {CompareModel} data
   * @param {ChartGroup} group
   */
  constructor(data, group) {
    this.data = data;
    this.group = group;
    this.charts = new NamedCharts('Logged metrics', 'metrics', {
      make: (name) => this.make(name),
      draw: (chart, /** @type {string} */ name) => this.draw(chart, name),
      drop: (chart) => group.drop(chart),
      redraw: () => this.update()
    });
    this.node = this.charts.node;
  }

  /** @param {string} name */
  points(name) {
    return this.data.runs.map((run) => {
      const curve = run.logged[name];
      const at = (curve?.x || []).map((x, i) => i).filter((i) => known(curve.mean[i]));
      return {x: at.map((i) => curve.x[i]), y: at.map((i) => curve.mean[i])};
    });
  }

  /**
   * @param {string} name
   * @returns {Page.ChartTable}
   */
  numbers(name) {
    const all = this.points(name).flatMap((p, i) => p.x.map((x, k) => ({x, i, y: p.y[k]})));
    return {
      heads: ['Place', 'Run', name],
      rows: all.sort((a, b) => b.x - a.x).map(({x, i, y}) => [place(x, 3), letterOf(i), plain(y)])
    };
  }

  /** @param {string} name */
  make(name) {
    return new Chart(this.group, {
      title: name,
      label: 'Logged metric ' + name,
      height: 150,
      yTicks: 4,
      format: tick,
      table: () => this.numbers(name)
    });
  }

  update() {
    const names = [...new Set(this.data.runs.flatMap((run) => Object.keys(run.logged)))];
    this.charts.show(names, (name) => name);
  }

  /**
   * @param {Chart} chart
   * @param {string} name
   */
  draw(chart, name) {
    const all = this.points(name);
    const end = (/** @type {number[]} */ y) => ending(last(y), plain, 10000, 0.001);
    const values = all.flatMap((p) => p.y);
    chart.set({
      rows: union(all),
      lines: all.map((p, i) => lineOf(i, true)),
      range: niceRange(values, {pad: 0.1}),
      ends: all.flatMap((p, i) => (p.y.length ? [endOf(i, last(p.y), end(p.y))] : [])),
      empty: values.length ? '' : 'Every value became NaN or infinite.'
    });
  }
}
