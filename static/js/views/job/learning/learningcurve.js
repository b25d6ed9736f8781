/* What the charts of loss and of accuracy share: every step as a band with its mean, smoothed on
   top, and the test results of each evaluation beside. */
import {nearest, smooth, valueAt} from '../../../chart/smooth.js';
import {last} from '../../../measures/measures.js';
import {stepWord} from '../../../spec/spec.js';
import {capital, known, place} from '../../../text/format.js';

/** @typedef {import('../view.js').JobView} JobView */

const RECENT = 40;
/** @param {JobView} view */
const headOf = ({group: {axis}, data: {job}}) => axis === 'step' ? capital(stepWord(job))
    : axis === 'time'                                            ? 'Seconds'
                                                                 : 'Samples';

export class LearningCurve {
  /**
   * @param {JobView} view
   * @param {string} series
   * @param {'loss' | 'accuracy'} field of an evaluation
   * @param {(value: number) => string} format
   * @param {() => boolean} [log] whether its axis is a log axis
   */
  constructor(view, series, field, format, log = () => false) {
    this.view = view;
    this.log = log;
    this.series = series;
    this.field = field;
    this.format = format;
    /** @type {Page.Curve} */
    this.raw = {x: [], min: [], max: [], mean: [], total: 0};
    /** @type {number[]} */
    this.soft = [];
    /** @type {Page.Points} */
    this.test = {x: [], y: []};
  }

  read() {
    const {data, smoothing, cuts} = this.view;
    this.raw = data.curves.curve(this.series);
    this.soft = smooth(this.raw, smoothing, cuts, this.log());
    this.test = data.tests(this.field);
  }

  get empty() {
    return this.raw.x.length === 0 && this.test.x.length === 0;
  }

  /* The values where the reading line is, or the newest. */
  values() {
    const x = this.view.group.hoverX;
    return x === null ? this.newest() : this.at(x);
  }

  newest() {
    const {raw, soft, test, format} = this;
    const least = Math.min(...raw.min.slice(-RECENT).filter(known));
    const most = Math.max(...raw.max.slice(-RECENT).filter(known));
    return {
      soft: format(last(soft)),
      range: raw.x.length ? format(least) + ' to ' + format(most) : 'none',
      test: format(last(test.y))
    };
  }

  /** @param {number} x */
  at(x) {
    const {raw, soft, test, format} = this;
    const i = raw.x.length ? nearest(raw.x, x) : 0;
    return {
      soft: format(valueAt(raw.x, soft, x)),
      range: raw.x.length ? format(raw.min[i]) + ' to ' + format(raw.max[i]) : 'none',
      test: format(valueAt(test.x, test.y, x, true))
    };
  }

  /** @returns {Page.ChartTable} */
  numbers() {
    const {raw, soft, test, format} = this;
    const steps = raw.x.map((x, i) => ({
      x,
      cells: [place(x, 3), ...[raw.mean[i], raw.min[i], raw.max[i], soft[i]].map(format), '']
    }));
    const tests =
        test.x.map((x, i) => ({x, cells: [place(x, 3), '', '', '', '', format(test.y[i])]}));
    return {
      heads: [headOf(this.view), 'Train, mean', 'least', 'greatest', 'Smoothed', 'Test'],
      rows: [...steps, ...tests].sort((a, b) => b.x - a.x).map((row) => row.cells)
    };
  }
}
