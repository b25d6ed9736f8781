/* Throughput, and the gap to the nodes' throughput if they only computed; next to it how the time
   of a step is spent. */
import {Chart} from '../../../chart/chart.js';
import {niceRange} from '../../../chart/scale.js';
import {smooth, valueAt, visible} from '../../../chart/smooth.js';
import {h} from '../../../elements/dom.js';
import {nothingYet} from '../../../elements/states.js';
import {last} from '../../../measures/measures.js';
import {ending, known, place, tick, whole} from '../../../text/format.js';

import {StepSplit} from './stepsplit.js';

/** @typedef {import('../view.js').JobView} JobView */
/** @typedef {import('../model/model.js').JobModel} JobModel */

/**
 * At each point of the axis: the sum over nodes of the minibatch divided by the node's own time for
 * it.
 * @param {JobModel} data
 * @param {number[]} xs
 */
function idealCurve(data, xs) {
  const parts = data.nodes().map((n) => {
    const batch = data.curves.curve('batch', n);
    const compute = data.curves.own(n);
    return {batch, compute, soft: smooth(compute, 0.7)};
  });
  return xs.map((x) => parts.reduce((sum, p) => {
    const batch = valueAt(p.batch.x, p.batch.mean, x, true);
    const compute = valueAt(p.compute.x, p.soft, x);
    return batch > 0 && compute > 0 ? sum + batch / compute : NaN;
  }, 0));
}

/**
 * Nodes do not compute for longer than the run lasts, so that the ideal is never below what was
 * reached: where it comes out so, as on one node alone, the two were measured at other moments.
 * @param {number[]} ideal
 * @param {number[]} reached
 */
export function notBelow(ideal, reached) {
  return ideal.map((v, i) => (reached[i] > v ? reached[i] : v));
}

/**
 * The area between the two curves, where both are known.
 * @param {number[]} x
 * @param {number[]} top
 * @param {number[]} bottom
 * @returns {Page.Area}
 */
function gapArea(x, top, bottom) {
  const good = x.map((v, i) => i).filter((i) => known(top[i]) && known(bottom[i]));
  return {
    x: good.map((i) => x[i]),
    top: good.map((i) => top[i]),
    bottom: good.map((i) => bottom[i]),
    colour: 'var(--p-wait)'
  };
}

/** @implements {Page.Part} */
export class Throughput {
  /** @param {JobView} view */
  constructor(view) {
    this.view = view;
    /** @type {Page.Curve} */
    this.raw = {x: [], min: [], max: [], mean: [], total: 0};
    /** @type {number[]} */
    this.ideal = [];
    this.chart = new Chart(view.group, {
      title: 'Throughput',
      subtitle: 'samples per second; the gap is time not spent computing',
      height: 150,
      yTicks: 4,
      format: tick,
      table: () => this.numbers()
    });
    this.split = new StepSplit(view);
    this.node = h('section', {'aria-label': 'Throughput', class: 'row'}, this.chart.node,
        h('div', {class: 'rail-side'}, this.split.head, this.split.node, this.split.few.node,
            this.split.key, this.split.empty));
  }

  /** @returns {Page.ChartTable} */
  numbers() {
    const {raw, ideal} = this;
    const least = notBelow(ideal, raw.mean);
    return {
      heads: ['Place', 'Samples/s', 'Ideal'],
      rows: raw.x.map((x, i) => [place(x, 2), whole(raw.mean[i]), whole(least[i])]).reverse()
    };
  }

  update() {
    this.drawChart();
    this.split.draw();
  }

  drawChart() {
    const {data, group, smoothing, cuts} = this.view;
    const raw = data.curves.curve('samples_per_second');
    const soft = smooth(raw, Math.min(0.6, smoothing), cuts);
    const ideal = notBelow(idealCurve(data, raw.x), soft);
    Object.assign(this, {raw, ideal});
    const n = raw.x.length;
    const inside = visible(raw.x, group.window()).flatMap((i) => [soft[i], ideal[i], raw.mean[i]]);
    this.chart.set({
      rows: raw.x.map((x, i) => [x, soft[i], known(ideal[i]) ? ideal[i] : null]),
      lines: [
        {label: 'samples per second', colour: 'var(--ink)', width: 2},
        {label: 'ideal', colour: 'var(--ink-2)', width: 1.25, dash: [5, 3]}
      ],
      band: {...raw, colour: 'var(--ink)', line: false},
      area: gapArea(raw.x, ideal, soft),
      range: niceRange(inside, {zero: true, pad: 0.15}),
      ends: n ? this.ends(last(soft), last(ideal)) : [],
      note: n && n < raw.total ? whole(n) + ' of ' + whole(raw.total) + ' windows' : '',
      empty: n ? '' : nothingYet(data.job)
    });
  }

  /**
   * @param {number} now
   * @param {number} ideal
   * @returns {Page.End[]}
   */
  ends(now, ideal) {
    const {narrow} = this.view;
    const text = (/** @type {number} */ y) => ending(y, whole, narrow ? 1e4 : 1e6);
    const word = narrow ? '' : 'ideal ';
    return [
      ...(known(ideal) ? [{y: ideal, text: word + text(ideal), quiet: true}] : []),
      {y: now, text: text(now), bold: true}
    ];
  }
}
