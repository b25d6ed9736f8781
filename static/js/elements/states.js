/* States of jobs and nodes as pills: icon and word, never a colour alone. */
import {h} from './dom.js';
import {icon} from './icons.js';

/** @type {{[state: string]: [string, string, string]}} icon, word, tone */
const JOBS = {
  queued: ['clock', 'Queued', ''],
  launching: ['ring', 'Launching', 'run'],
  running: ['ring', 'Running', 'run'],
  pausing: ['pause', 'Pausing', 'warn'],
  paused: ['pause', 'Paused', 'warn'],
  cancelling: ['stop', 'Cancelling', ''],
  cancelled: ['stop', 'Cancelled', ''],
  succeeded: ['check', 'Succeeded', 'ok'],
  failed: ['cross', 'Failed', 'bad'],
  /* only trials have this state */
  waiting: ['clock', 'Waiting', ''],
  stopped: ['down', 'Stopped', ''],
};
/** @type {{[state: string]: [string, string, string]}} */
const NODES = {
  ready: ['check', 'free', 'ok'],
  busy: ['ring', 'busy', 'run'],
  resting: ['pause', 'resting', 'warn'],
  draining: ['down', 'drained', 'warn'],
  disabled: ['stop', 'disabled', ''],
  lost: ['cross', 'lost', 'bad'],
};

/** @param {Api.State} state */
export const active = (state) => ['launching', 'running', 'pausing', 'cancelling'].includes(state);
/** @param {Api.State} state */
export const ended = (state) => ['succeeded', 'failed', 'cancelled'].includes(state);
/** @param {Api.State} state */
export const waiting = (state) => state === 'queued' || state === 'paused';

/**
 * The text in place of steps: a job that has ended will have none.
 * @param {Api.State} state
 * @param {string} yet
 */
export const noneYet = (state, yet) => (ended(state) ? 'There are no steps to show.' : yet);

/**
 * The epoch in which a job ended because it had reached its target; NaN where it made all epochs.
 * @param {Api.Job} job
 */
export function earlyEnd({state, spec, progress, metrics}) {
  const target = spec?.target?.test_accuracy || NaN;
  const reached = state === 'succeeded' && (metrics?.test_accuracy ?? 0) >= target;
  return progress && reached && progress.epoch < progress.epochs ? Math.ceil(progress.epoch) : NaN;
}

/** @param {Api.State | Api.TrialState} state */
export function pill(state) {
  const [name, text, tone] = JOBS[state] || ['clock', state, ''];
  return h('span', {class: 'pill', data: {tone, state}}, icon(name, 12), h('span', {text}));
}

/**
 * The pill of a state, put where the old one is if that shows another state.
 * @param {HTMLElement} node
 * @param {Api.State | Api.TrialState} state
 */
export function setPill(node, state) {
  if (node.dataset.state === state) {
    return node;
  }
  const made = pill(state);
  node.replaceWith(made);
  return made;
}

/**
 * Is a job on this node? One that was drained keeps its job until that ends.
 * @param {Api.Node} n
 */
export const trains = (n) => Boolean(n.job) && n.state !== 'lost';

/** @param {Api.Node} n */
export function nodeState(n) {
  const [name, known, tone] = NODES[n.state] || ['clock', n.state, ''];
  const text = n.state === 'draining' && trains(n) ? 'draining' : known;
  return {icon: h('span', {class: 'state-icon', data: {tone}}, icon(name, 13)), text, tone};
}

/**
 * The text of a chart whose figure the program does not report.
 * @param {Api.Job} job
 * @param {string} figure
 */
export const noneLogged = ({state}, figure) =>
    'This program ' + (ended(state) ? 'logged' : 'has logged') + ' no ' + figure + '.';

/**
 * The text of a chart without points.
 * @param {Api.Job} job
 */
export function nothingYet(job) {
  if (job.pruned) {
    return 'The history of this job was removed on ' + job.pruned.slice(0, 10) + ' to make room.';
  }
  if (job.state === 'queued') {
    return 'The job has not started yet.';
  }
  if (job.state === 'launching') {
    return 'The job is being started.';
  }
  if (job.state === 'paused') {
    return 'Nothing was recorded before the pause.';
  }
  return ended(job.state) ? 'Nothing was recorded.' : 'The first step has not ended yet.';
}
