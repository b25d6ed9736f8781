/* One metric that a program logged: every point as it was, smoothed where there are many. */
import {Chart} from '../../../chart/chart.js';
import {niceRange} from '../../../chart/scale.js';
import {smooth, valueAt, visible} from '../../../chart/smooth.js';
import {say} from '../../../elements/dom.js';
import {curveOf} from '../../../measures/logged.js';
import {last} from '../../../measures/measures.js';
import {ending, known, place, plain, plural, tick} from '../../../text/format.js';

/** @typedef {import('../view.js').JobView} JobView */

/** Points below which each is shown with a dot, and none is smoothed. */
const FEW = 60;

export class LoggedChart {
  /**
   * @param {JobView} view
   * @param {string} name
   */
  constructor(view, name) {
    this.view = view;
    /** @type {Page.Curve} */
    this.curve = {x: [], min: [], max: [], mean: [], total: 0};
    this.chart = new Chart(view.group, {
      title: name,
      label: 'Logged metric ' + name,
      height: 120,
      yTicks: 3,
      format: tick,
      table: () => this.numbers()
    });
    this.node = this.chart.node;
  }

  /** @param {Api.LoggedMetric} metric */
  draw(metric) {
    const {data, group, smoothing, cuts} = this.view;
    const curve = curveOf(metric, group.axis, data.curves.samplesPerEpoch || 0);
    const few = curve.x.length < FEW;
    const line = few ? curve.mean : smooth(curve, smoothing, cuts);
    const inside = visible(curve.x, group.window()).flatMap((i) => [curve.min[i], curve.max[i]]);
    const told = curve.mean.some(known);
    this.curve = curve;
    this.chart.set({
      rows: curve.x.map((x, i) => [x, known(line[i]) ? line[i] : null]),
      lines: [{
        label: metric.name,
        colour: 'var(--ink)',
        width: 2,
        ...(few ? {shape: 'circle', shapeSize: 3} : {})
      }],
      band: {...curve, colour: 'var(--ink)', line: false},
      range: niceRange(inside.filter(known), {pad: 0.1}),
      ends: told ? [{y: last(line.filter(known)), text: this.ending(last(curve.mean)), bold: true}]
                 : [],
      note: this.note(),
      empty: told          ? ''
          : curve.x.length ? 'Every value became NaN or infinite.'
                           : 'No value here.'
    });
  }

  /** @param {number} newest */
  ending(newest) {
    return known(newest) ? ending(newest, plain, 10000, 0.001) : 'not finite';
  }

  /* The value at the reading line; else how many points there are. */
  note() {
    const {group} = this.view;
    const {x, mean, total} = this.curve;
    return group.hoverX !== null && x.length ? plain(valueAt(x, mean, group.hoverX, true))
                                             : plural(total, 'point');
  }

  point() {
    say(this.chart.note, this.note());
  }

  /** @returns {Page.ChartTable} */
  numbers() {
    const {x, mean, min, max} = this.curve;
    const cells = (/** @type {number} */ at,
        /** @type {number} */ i) => [place(at, 3), plain(mean[i]), plain(min[i]), plain(max[i])];
    return {heads: ['Place', 'Mean', 'least', 'greatest'], rows: x.map(cells).reverse()};
  }

  close() {
    this.view.group.drop(this.chart);
  }
}
