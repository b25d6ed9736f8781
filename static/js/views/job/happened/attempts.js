/* The attempts of a job that was started more than once: where each began and ended, how long it
   took, and why it ended where that is known. */
import {h, keyed, sayAll} from '../../../elements/dom.js';
import {scroller, table} from '../../../elements/widgets.js';
import {wordsOf} from '../../../sentences/program.js';
import {serviceNow} from '../../../service/servicetime.js';
import {clock, duration, whole} from '../../../text/format.js';

import {fieldOf, whyOf} from './loglines.js';
import {resizeOf, resizeText} from './resizes.js';

/** @typedef {import('../view.js').JobView} JobView */
/** @typedef {import('../model/model.js').JobModel} JobModel */
/** @typedef {import('../model/placed.js').Placed} Placed */
/** @typedef {import('./logs.js').LogLine} LogLine */
/** @typedef {{number: number, texts: string[]}} Attempt */

const SAME_MS = 60000;

/**
 * The first error that the logs have of an attempt, with its node; '' where they have none.
 * @param {JobModel} data
 * @param {LogLine[]} lines of all ranks in the order of time
 * @param {string} from when the attempt began
 * @param {string} to when the next one did
 */
function firstError({job}, lines, from, to) {
  const [begin, end] = [Date.parse(from), Date.parse(to)];
  const found = lines.find(
      ({level, at}) => level === 'error' && Date.parse(at) >= begin && Date.parse(at) < end);
  const node = (job.workers || []).find((w) => w.rank === found?.id)?.node;
  const text = found ? whyOf(found.line) || fieldOf(found.line, 'msg') : '';
  return [node, text].filter(Boolean).join(': ');
}

/**
 * Why an attempt ended that did not end the job.
 * @param {JobModel} data
 * @param {Placed} next the first minibatches of the next one
 * @param {string} error the first that the logs have of it
 */
function why({lost, job}, next, error) {
  const resize = resizeOf(job, next);
  if (resize) {
    return resizeText(resize);
  }
  const seen = lost.find((l) => Math.abs(l.at - Date.parse(next.time)) < SAME_MS);
  if (seen) {
    return seen.text || 'it was lost';
  }
  return (job.restarts ?? 0) > 0 ? error || 'the log has it' : 'paused';
}

/**
 * The steps of an attempt. An attempt that ended before its first step has none.
 * @param {number} from
 * @param {number | undefined} to
 */
function stepsText(from, to) {
  return (to ?? 0) > from ? whole(from) + ' to ' + whole(to) : 'none';
}

/**
 * How it is with the last attempt.
 * @param {Api.Job} job
 */
function lastly({state, error}) {
  const ends = {
    failed: wordsOf(error) || 'it failed',
    succeeded: 'it succeeded',
    cancelled: 'it was cancelled',
    paused: 'the job is paused',
    queued: 'the job waits'
  };
  return ends[/** @type {keyof typeof ends} */ (state)] || 'it runs';
}

/**
 * The newest first.
 * @param {JobModel} data
 * @param {Placed[]} begun the first minibatches of each
 * @param {LogLine[]} lines of all ranks in the order of time
 * @returns {Attempt[]}
 */
function attemptsOf(data, begun, lines) {
  const {job} = data;
  return begun
      .map((a, i) => {
        const next = begun[i + 1];
        const end = next ? Date.parse(next.time) : Date.parse(job.finished || '') || serviceNow();
        const to = next ? next.at : job.progress?.step;
        const from = i === 0 ? job.started || a.time : a.time;
        return {
          number: i + 1,
          texts: [
            String(i + 1), stepsText(a.at, to), clock(from),
            duration((end - Date.parse(from)) / 1000),
            next ? why(data, next, firstError(data, lines, from, next.time)) : lastly(job)
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
    const {data, logs} = this.view;
    const begun = data.placed().filter((a, i) => i === 0 || a.restart);
    this.node.hidden = begun.length < 2;
    const all = this.node.hidden ? [] : attemptsOf(data, begun, logs?.linesOf('all') || []);
    keyed(this.body, all, (a) => a.number, () => {
      const cells = ['num', 'num', 'num', 'num', ''].map((cls) => h('td', {class: cls}));
      return {node: h('tr', null, cells), cells};
    }, ({cells}, a) => sayAll(cells, a.texts));
  }
}
