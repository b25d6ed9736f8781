/* What the charts of a page share: the x axis and its range, the reading line, marks, zoom, keys,
   theme. There are two ranges: `full` is that of the data, `zoom` is the chosen one (null:
   everything). Events: "hover" (x or null), "zoom" (range or null). */
import {dragZoom} from './dragzoom.js';
import {lastAtOrBefore} from './smooth.js';

/** @typedef {import('./chart.js').Chart} Chart */

export class ChartGroup extends EventTarget {
  constructor() {
    super();
    /** @type {Chart[]} */
    this.charts = [];
    /** @type {Page.Axis} */
    this.axis = 'step';
    /** @type {Page.Range} */
    this.full = [0, 1];
    /** @type {Page.Range | null} */
    this.zoom = null;
    /** @type {Page.Mark[]} */
    this.marks = [];
    /** @type {number | null} */
    this.hoverX = null;
    this.dragging = false;
    /** Whether the service is away, so that what is drawn may be old. */
    this.faint = false;
    this.onTheme = () => requestAnimationFrame(() => this.redraw());
    window.addEventListener('evenstep-theme', this.onTheme);
  }

  /** @param {Chart} chart */
  interaction(chart) {
    return dragZoom(this, chart);
  }

  /** @param {Chart} chart */
  add(chart) {
    this.charts.push(chart);
  }

  /** @param {Chart} chart */
  drop(chart) {
    chart.close();
    this.charts = this.charts.filter((c) => c !== chart);
  }

  close() {
    window.removeEventListener('evenstep-theme', this.onTheme);
    this.charts.forEach((c) => c.close());
    this.charts = [];
  }

  /** @returns {Page.Range} */
  window() {
    return this.zoom || this.full;
  }

  /**
   * Sets the full range. A single step is in its middle, since a tick at the right edge is not
   * drawn.
   * @param {number} a
   * @param {number} b
   */
  setFull(a, b) {
    const one = this.axis === 'time' ? 0 : 1;
    this.full = b - a > one ? [a, b] : [a, a + one + 1];
  }

  /**
   * A range within what there is, and not too small; null where it is everything.
   * @param {Page.Range} range
   * @returns {Page.Range | null}
   */
  within([a, b]) {
    const [least, most] = this.full;
    const span = Math.max(b - a, (most - least) / 5000);
    const from = Math.max(least, Math.min(a, most - span));
    const to = Math.min(most, from + span);
    return from <= least && to >= most ? null : [from, to];
  }

  /** @param {Page.Range | null} range */
  setZoom(range) {
    this.zoom = range && this.within(range);
    this.redraw();
    this.dispatchEvent(new CustomEvent('zoom', {detail: this.zoom}));
  }

  redraw() {
    this.charts.forEach((c) => c.redraw());
  }

  /** @param {number | null} x */
  hover(x) {
    if (x === this.hoverX) {
      return;
    }
    this.hoverX = x;
    this.charts.forEach((c) => c.showHair(x));
    this.dispatchEvent(new CustomEvent('hover', {detail: x}));
  }

  /**
   * Moves the reading line by so many points of a chart, within the visible range.
   * @param {Chart} chart
   * @param {number} by
   */
  moveHair(chart, by) {
    const xs = chart.xs();
    if (xs.length === 0) {
      return;
    }
    const [a, b] = this.window();
    const first = Math.max(0, lastAtOrBefore(xs, a - 1e-9) + 1);
    const last = lastAtOrBefore(xs, b);
    const at = this.hoverX === null ? last : lastAtOrBefore(xs, this.hoverX + 1e-9) + by;
    this.hover(xs[Math.min(Math.max(at, first), last)]);
  }

  /** @param {number} factor */
  zoomBy(factor) {
    const [a, b] = this.window();
    const mid = this.hoverX === null ? (a + b) / 2 : this.hoverX;
    this.setZoom([mid - (mid - a) * factor, mid + (b - mid) * factor]);
  }

  /** @param {Chart} chart */
  leave(chart) {
    this.hover(null);
    if (chart.tableShown) {
      chart.toggleTable(false);
    } else {
      this.setZoom(null);
    }
  }

  /**
   * The action of a key in a chart; undefined: none.
   * @param {KeyboardEvent} e
   * @param {Chart} chart
   * @returns {(() => void) | undefined}
   */
  actionOf(e, chart) {
    const by = e.shiftKey ? 10 : 1;
    /** @type {{[key: string]: () => void}} */
    const actions = {
      ArrowLeft: () => this.moveHair(chart, -by),
      ArrowRight: () => this.moveHair(chart, by),
      Home: () => this.hover(chart.xs().at(0) ?? null),
      End: () => this.hover(chart.xs().at(-1) ?? null),
      '+': () => this.zoomBy(0.5),
      '=': () => this.zoomBy(0.5),
      '-': () => this.zoomBy(2),
      '−': () => this.zoomBy(2),
      0: () => this.setZoom(null),
      t: () => chart.toggleTable(),
      T: () => chart.toggleTable(),
      Escape: () => this.leave(chart),
    };
    return actions[e.key];
  }

  /**
   * @param {KeyboardEvent} e
   * @param {Chart} chart
   */
  onKey(e, chart) {
    const act = e.ctrlKey || e.metaKey || e.altKey ? undefined : this.actionOf(e, chart);
    if (act) {
      act();
      e.preventDefault();
      e.stopPropagation();
    }
  }
}
