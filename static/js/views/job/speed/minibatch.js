/* Minibatch per node, as steps because a size holds until it is changed, and beside it why it was
   changed. Drawn from the assignments, which are exact. */
import {Chart} from '../../../chart/chart.js';
import {niceRange} from '../../../chart/scale.js';
import {h} from '../../../elements/dom.js';
import {nothingYet} from '../../../elements/states.js';
import {globalBatch, stepWord} from '../../../spec/spec.js';
import {capital, known, place, seconds, tick, whole} from '../../../text/format.js';

import {Reasons} from './reasons.js';

/** @typedef {import('../view.js').JobView} JobView */
/** @typedef {import('../model/model.js').JobModel} JobModel */

const FEW = 8;

/**
 * [[x, size of each node…]]; what was given at the same step before has never been in force.
 * @param {JobModel} data
 * @param {string[]} names
 * @returns {number[][]} NaN for a node that has no minibatch
 */
function sizeRows(data, names) {
  /** @type {number[][]} */
  let rows = [];
  for (const a of data.placed()) {
    const x = data.curves.xOfStep(a.at);
    rows = rows.filter((r) => r[0] < x);
    rows.push([x, ...names.map((n) => a.batches?.[n] ?? NaN)]);
  }
  if (rows.length === 0) {
    return rows;
  }
  rows[0][0] = Math.min(0, rows[0][0]);
  const [x, ...sizes] = rows[rows.length - 1];
  const end = data.extent();
  return end > x ? [...rows, [end, ...sizes]] : rows;
}

/** @implements {Page.Part} */
export class Minibatch {
  /** @param {JobView} view */
  constructor(view) {
    this.view = view;
    this.chart = new Chart(view.group, {
      title: 'Minibatch per node',
      subtitle: 'samples per step',
      height: 190,
      format: tick,
      table: () => this.numbers()
    });
    this.reasons = new Reasons(view);
    this.node = h('section', {'aria-label': 'Minibatch per node', class: 'row'}, this.chart.node,
        h('div', {class: 'rail-side'}, h('h3', {class: 'rail-head', text: 'Why it changed'}),
            this.reasons.node, this.reasons.none));
  }

  /** @returns {Page.ChartTable} */
  numbers() {
    const {data, key} = this.view;
    const names = data.nodes();
    const positive = (/** @type {number} */ s) => (s > 0 ? seconds(s) : 'none');
    return {
      heads: [
        'Version', capital(stepWord(data.job)), ...names.map((n) => key.label(n)), 'Predicted',
        'Measured before'
      ],
      rows: data.placed().reverse().map(
          (a) => ['v' + a.version, whole(a.at), ...names.map((n) => whole(a.batches?.[n])),
              positive(a.predicted_step_seconds), positive(a.measured_step_seconds)])
    };
  }

  update() {
    const {data} = this.view;
    const names = data.nodes();
    const rows = sizeRows(data, names);
    const newest = rows.length ? rows[rows.length - 1].slice(1) : [];
    const global = globalBatch(data.job);
    const equal = global / Math.max(1, names.length);
    const sizes = rows.flatMap((r) => r.slice(1)).filter(known);
    const log = names.length > FEW;
    const unequal = sizes.length > 0 && known(equal) && new Set(newest).size > 1;
    this.chart.set({
      rows: rows.map((r) => r.map((v) => (known(v) ? v : null))),
      log,
      lines: names.map((n) => this.line(n, !log)),
      range: niceRange([...sizes, equal], {zero: !log, log, pad: 0.12}),
      hlines: unequal ? [{y: equal, style: 'ghost', text: equalText(equal)}] : [],
      ends: newest.length ? this.ends(names, newest) : [],
      subtitle: 'samples per step' + (known(global) ? '; the sum is always ' + whole(global) : ''),
      empty: rows.length ? '' : nothingYet(data.job)
    });
    this.reasons.draw();
  }

  /**
   * @param {string} name
   * @param {boolean} few
   * @returns {Page.Line}
   */
  line(name, few) {
    const {key, chosen} = this.view;
    return {
      label: name,
      colour: key.colour(name),
      width: chosen === name ? 3 : 1.75,
      step: true,
      shape: few ? key.shapeName(name) : undefined
    };
  }

  /**
   * @param {string[]} names
   * @param {number[]} sizes
   * @returns {Page.End[]}
   */
  ends(names, sizes) {
    const {key} = this.view;
    const shown = names.length > FEW ? names.filter((n) => key.number(n)) : names;
    return shown.map((n) => {
      const y = sizes[names.indexOf(n)];
      return {y, text: known(y) ? whole(y) : '', bold: true, mark: n, icon: () => key.mark(n, 9)};
    });
  }
}

/** @param {number} equal */
function equalText(equal) {
  return 'equal split ' + (equal < 20 ? place(equal, 1) : whole(equal));
}
