/* Test accuracy and train loss of all runs, on one x axis. */
import {Chart} from '../../chart/chart.js';
import {logTitle, niceRange} from '../../chart/scale.js';
import {smooth, union} from '../../chart/smooth.js';
import {h} from '../../elements/dom.js';
import {last} from '../../measures/measures.js';
import {ending, known, loss, lossTick, percent, percentTick, place} from '../../text/format.js';

import {colourOf, endOf, letterOf, lineOf} from './letters.js';

/** @typedef {import('../../chart/group.js').ChartGroup} ChartGroup */
/** @typedef {import('./model.js').CompareModel} CompareModel */

const HEIGHT = 200;
const HEADS = {
  time: 'Seconds',
  step: 'Step',
  samples: 'Samples'
};
/** @type {Page.Curve} */
const NONE = {
  x: [],
  min: [],
  max: [],
  mean: [],
  total: 0
};

/** @implements {Page.Part} */
export class CompareCharts {
  /**
   * @param {CompareModel} data
   * @param {ChartGroup} group
   */
  constructor(data, group) {
    this.data = data;
    this.group = group;
    this.smoothing = 0.8;
    this.log = true;
    this.accuracy = new Chart(group, {
      title: 'Test accuracy',
      height: HEIGHT,
      yTicks: 4,
      format: percentTick,
      table: () => this.numbers('test_accuracy', 'Test accuracy', (v) => percent(v))
    });
    this.loss = new Chart(group, {
      title: 'Train loss',
      height: HEIGHT,
      format: lossTick,
      table: () => this.numbers('train_loss', 'Train loss', loss)
    });
    this.node = h('div', null, this.accuracy.node, this.loss.node);
  }

  /**
   * @param {string} name
   * @param {string} head
   * @param {(value: number) => string} format
   * @returns {Page.ChartTable}
   */
  numbers(name, head, format) {
    const points = this.curves(name).flatMap((c, i) => c.x.map((x, k) => ({x, i, y: c.mean[k]})));
    return {
      heads: [HEADS[this.group.axis], 'Run', head],
      rows:
          points.sort((a, b) => b.x - a.x).map(({x, i, y}) => [place(x, 3), letterOf(i), format(y)])
    };
  }

  /** @param {string} name */
  curves(name) {
    return this.data.runs.map((r) => r.curves[name] || NONE);
  }

  update() {
    this.group.setFull(0, this.data.extent());
    this.drawAccuracy();
    this.drawLoss();
  }

  drawAccuracy() {
    const {axis} = this.group;
    const tests = this.curves('test_accuracy').map((c) => ({x: c.x, y: c.mean}));
    const shown = tests.flatMap((t) => t.y).filter(known);
    const [low, high] = niceRange(shown, {pad: 0.08});
    this.accuracy.set({
      rows: union(tests),
      lines: tests.map((t, i) => lineOf(i, true)),
      range: shown.length ? [Math.max(0, low), Math.min(1.01, high)] : [0, 1],
      ends: tests.flatMap((t, i) => (t.y.length ? [endOf(i, last(t.y), percent(last(t.y)))] : [])),
      subtitle: axis === 'time' ? 'by time since start' : 'by ' + axis,
      empty: shown.length                              ? ''
          : this.data.runs.some((r) => r.tests.length) ? 'These runs have no accuracy.'
                                                       : 'No evaluation has ended yet.'
    });
  }

  drawLoss() {
    const {log} = this;
    const losses = this.curves('train_loss');
    const soft = losses.map((c) => smooth(c, this.smoothing, [], log));
    const all = losses.flatMap((c, i) => [...c.mean, ...soft[i]]).filter(known);
    this.loss.set({
      rows: union(losses.map((c, i) => ({x: c.x, y: soft[i]}))),
      lines: losses.map((c, i) => lineOf(i)),
      band: losses.map((c, i) => ({...c, colour: colourOf(i), line: false})),
      log,
      range: niceRange(all, {log, pad: 0.04}),
      ends: soft.flatMap((y, i) => (y.length ? [endOf(i, last(y), ending(last(y), loss))] : [])),
      subtitle: log ? logTitle(losses.flatMap((c) => c.mean)) : '',
      note: losses.some((c) => c.total > c.x.length) ? 'extremes kept' : '',
      empty: all.length                                      ? ''
          : this.data.runs.some((r) => r.job.progress?.step) ? 'These runs have no loss.'
                                                             : 'The first step has not ended yet.'
    });
  }
}
