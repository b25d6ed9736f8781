/* A figure of every node as a chart: one series, a line for each node. */
import {Chart} from '../../chart/chart.js';
import {niceRange} from '../../chart/scale.js';
import {valueAt} from '../../chart/smooth.js';
import {known, seconds, short, tick} from '../../text/format.js';
import {last} from '../../measures/measures.js';
import {nothingYet} from '../../elements/states.js';

/** @typedef {import('./view.js').JobView} JobView */
/** @typedef {import('./model/model.js').JobModel} JobModel */

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
export class FigureChart {
  /**
   * @param {JobView} view
   * @param {Page.Figure} figure
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
    this.node = this.chart.node;
  }

  /** @returns {Page.ChartTable} */
  numbers() {
    const {key} = this.view;
    const {head, title} = this.figure;
    const rows = this.lines.flatMap(({name, points: {x, y}}) => x.map(
                                        (at, i) => [key.label(name), tick(at), this.format(y[i])]));
    return {heads: ['Node', 'Place', head || title], rows: rows.reverse()};
  }

  /**
   * A node's newest value; NaN where there is none.
   * @param {string} node
   */
  newest(node) {
    return last(this.lines.find((l) => l.name === node)?.points.y || []);
  }

  update() {
    const {data, key, chosen} = this.view;
    const {level, series} = this.figure;
    this.lines = data.nodes().map((name) => ({name, points: pointsOf(data, series, name)}));
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
}
