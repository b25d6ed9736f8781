/* Staleness of each run: all its nodes together. */
import {fill, h} from '../../elements/dom.js';
import {histogram} from '../../elements/figures.js';
import {known} from '../../text/format.js';

import {colourOf, letterOf, runKey} from './letters.js';

/** @typedef {import('./model.js').CompareModel} CompareModel */
/** @typedef {import('./model.js').Run} Run */

const LEAST_BINS = 8;

/**
 * Updates by staleness, all nodes together.
 * @param {Run} run
 */
function counts(run) {
  const all = run.staleness.map((n) => n.histogram || []);
  const bins = Math.max(0, ...all.map((v) => v.length));
  return Array.from({length: bins}, (_, i) => all.reduce((sum, v) => sum + (v[i] || 0), 0));
}

/** @param {Run} run */
function quantiles({job: {staleness}}) {
  return staleness && known(staleness.p50)
      ? 'p50 ' + staleness.p50 + ', p95 ' + staleness.p95 + ', max ' + staleness.max
      : 'none';
}

/** @implements {Page.Part} */
export class Histograms {
  /** @param {CompareModel} data */
  constructor(data) {
    this.data = data;
    this.node = h('div', {class: 'compare-hist'});
  }

  update() {
    const {runs} = this.data;
    const sums = runs.map(counts);
    const bins = Math.max(LEAST_BINS, ...sums.map((v) => v.length));
    fill(this.node,
        runs.map((run, i) => [runKey(i),
                     histogram(sums[i], bins, NaN, colourOf(i), 'staleness of run ' + letterOf(i)),
                     h('span', {class: 'quiet', text: quantiles(run)})]));
  }
}
