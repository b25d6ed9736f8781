/* Charts of columns of rows, one under the other: those that the table of columns names. */
import {h} from '../../elements/dom.js';

import {FigureChart} from './figure.js';
import {CHARTS} from './rowcharts.js';

/** @implements {Page.Part} */
export class RowFigures {
  /** @param {import('./view.js').JobView} view */
  constructor(view) {
    this.charts = CHARTS.map((figure) => new FigureChart(view, figure));
    const rows = this.charts.map(
        ({figure, node}) => h('section', {'aria-label': figure.title, class: 'row'}, node));
    this.node = h('div', {hidden: rows.length === 0}, rows);
  }

  update() {
    this.charts.forEach((chart) => chart.update());
  }
}
