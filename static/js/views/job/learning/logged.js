/* A chart for each metric that the job's program logged, in the order in which they first came. */
import {NamedCharts} from '../../../elements/namedcharts.js';

import {LoggedChart} from './loggedchart.js';

/** @typedef {import('../view.js').JobView} JobView */

/* Without new points charts change with these alone. */
const DRAWN_BY = ['series', 'all', 'zoom', 'marks', 'job'];

/** @implements {Page.Part} */
export class Logged {
  /** @param {JobView} view */
  constructor(view) {
    this.view = view;
    this.charts = new NamedCharts('Logged metrics', 'metrics', {
      make: (name) => new LoggedChart(view, name),
      draw: (chart, /** @type {Api.LoggedMetric} */ metric) => chart.draw(metric),
      drop: (chart) => chart.close(),
      redraw: () => view.draw()
    });
    this.node = this.charts.node;
  }

  /** @param {Set<string>} what has changed */
  update(what) {
    if (DRAWN_BY.some((kind) => what.has(kind))) {
      this.charts.show(this.view.data.logged.all, (metric) => metric.name);
    } else {
      this.point();
    }
  }

  point() {
    this.charts.charts.forEach((chart) => chart.point());
  }
}
