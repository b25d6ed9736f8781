/* A chart for each of several names, of which a few are shown at first. A chart stays the same
   while its name is shown, and is dropped when it is not. */
import {h, keyed} from './dom.js';
import {Few} from './few.js';

const MOST = 6;

/**
 * @template T what is drawn
 * @template {{node: Element}} C its chart
 */
export class NamedCharts {
  /**
   * @param {string} label of all, "Logged metrics"
   * @param {string} what they are, for the button: "metrics"
   * @param {{make: (name: string) => C, draw: (chart: C, item: T) => void,
   *          drop: (chart: C) => void, redraw: () => void}} how
   */
  constructor(label, what, how) {
    this.how = how;
    this.few = new Few(how.redraw, what, MOST);
    /** @type {Map<string, C>} */
    this.charts = new Map();
    this.list = h('div', {class: 'named-charts'});
    this.node =
        h('section', {'aria-label': label, class: 'named', hidden: true}, this.list, this.few.node);
  }

  /** @param {string} name */
  make(name) {
    const chart = this.how.make(name);
    this.charts.set(name, chart);
    return chart;
  }

  /**
   * @param {T[]} items
   * @param {(item: T) => string} nameOf
   */
  show(items, nameOf) {
    const shown = this.few.of(items, () => false);
    this.node.hidden = items.length === 0;
    keyed(this.list, shown, nameOf, (item) => this.make(nameOf(item)), this.how.draw);
    const names = shown.map(nameOf);
    for (const [name, chart] of this.charts) {
      if (!names.includes(name)) {
        this.how.drop(chart);
        this.charts.delete(name);
      }
    }
  }
}
