/* The attempts of a job that was started more than once: where each began and ended, how long it
   took, and why it ended where that is known. */
import {h, keyed, sayAll} from '../../dom.js';
import {clock, duration, whole} from '../../format.js';
import {scroller, table} from '../../widgets.js';

import {resizeOf, resizeText} from './resizes.js';

/** @typedef {import('./view.js').JobView} JobView */
/** @typedef {import('./model.js').JobModel} JobModel */
/** @typedef {import('./placed.js').Placed} Placed */
/** @typedef {{number: number, texts: string[]}} Attempt */

const SAME_MS = 60000;

/**
 * Why an attempt ended that did not end the job.
 * @param {JobModel} data
 * @param {Placed} next the first minibatches of the next one
 */
function why({lost, job}, next) {
  const resize = resizeOf(job, next);
  if (resize) {
    return resizeText(resize);
  }
  const seen = lost.find((l) => Math.abs(l.at - Date.parse(next.time)) < SAME_MS);
  if (seen) {
    return seen.text || 'it was lost';
  }
  return (job.restarts ?? 0) > 0 ? 'the log has it' : 'paused';
}

/**
 * The newest first.
 * @param {JobModel} data
 * @returns {Attempt[]}
 */
export function attemptsOf(data) {
  const {job} = data;
  const begun = data.placed().filter((a, i) => i === 0 || a.restart);
  return begun
      .map((a, i) => {
        const next = begun[i + 1];
        const end = next ? Date.parse(next.time) : Date.parse(job.finished || '') || Date.now();
        const last = job.error?.message || (job.finished ? 'none: ' + job.state : 'it runs');
        const to = next ? next.at : job.progress?.step;
        const from = i === 0 ? job.started || a.time : a.time;
        return {
          number: i + 1,
          texts: [
            String(i + 1), whole(a.at) + ' to ' + whole(to), clock(from),
            duration((end - Date.parse(from)) / 1000), next ? why(data, next) : last
          ]
        };
      })
      .reverse();
}

/** @implements {Page.Part} */
export class Attempts {
  /** @param {JobView} view */
  constructor(view) {
    this.view = view;
    this.body = h('tbody');
    const list = table('Attempts',
        [['Attempt', 'num'], ['Steps', 'num'], ['Began', 'num'], ['Took', 'num'], 'Why it ended'],
        this.body, 'dense');
    this.node = h('section', {'aria-label': 'Attempts', id: 'attempts', hidden: true},
        h('div', {class: 'row-title'}, h('h2', {text: 'Attempts'})),
        scroller('Attempts, table', list));
  }

  update() {
    const all = attemptsOf(this.view.data);
    this.node.hidden = all.length < 2;
    keyed(this.body, all, (a) => a.number, () => {
      const cells = ['num', 'num', 'num', 'num', ''].map((cls) => h('td', {class: cls}));
      return {node: h('tr', null, cells), cells};
    }, ({cells}, a) => sayAll(cells, a.texts));
  }
}
