/* A chart for each metric that the job's program logged, in the order in which they first came. */
import {h, keyed} from '../../../elements/dom.js';
import {Few} from '../../../elements/few.js';

import {LoggedChart} from './loggedchart.js';

/** @typedef {import('../view.js').JobView} JobView */

const MOST = 6;
/* Without new points charts change with these alone. */
const DRAWN_BY = ['series', 'all', 'zoom', 'marks', 'job'];

/** @implements {Page.Part} */
export class Logged {
  /** @param {JobView} view */
  constructor(view) {
    this.view = view;
    this.few = new Few(() => view.draw(), 'metrics', MOST);
    /** @type {Map<string, LoggedChart>} */
    this.charts = new Map();
    this.list = h('div', {class: 'logged-charts'});
    this.node = h('section', {'aria-label': 'Logged metrics', class: 'logged', hidden: true},
        this.list, this.few.node);
  }

  /** @param {string} name */
  chartOf(name) {
    const chart = this.charts.get(name) || new LoggedChart(this.view, name);
    this.charts.set(name, chart);
    return chart;
  }

  /** @param {Set<string>} what has changed */
  update(what) {
    const {all} = this.view.data.logged;
    this.node.hidden = all.length === 0;
    if (!DRAWN_BY.some((kind) => what.has(kind))) {
      this.point();
      return;
    }
    const shown = this.few.of(all, () => false);
    keyed(
        this.list, shown, (m) => m.name, (m) => this.chartOf(m.name), (chart, m) => chart.draw(m));
    this.drop(shown);
  }

  /**
   * Charts that are shown no longer.
   * @param {Api.LoggedMetric[]} shown
   */
  drop(shown) {
    for (const [name, chart] of this.charts) {
      if (!shown.some((m) => m.name === name)) {
        chart.close();
        this.charts.delete(name);
      }
    }
  }

  point() {
    this.charts.forEach((chart) => chart.point());
  }
}
