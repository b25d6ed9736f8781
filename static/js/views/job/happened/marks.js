/* What happened to a job, as marks on its x axis: minibatch changes, lost nodes and restarts,
   changes of size, programs that were restarted, changes of the learning rate, checkpoints, and the
   failure that ended it. */

import {wordsOf} from '../../../sentences/program.js';

import {resizeOf, resizeText} from './resizes.js';

/** @typedef {import('../model/model.js').JobModel} JobModel */
/** @typedef {Omit<Page.Mark, 'x'>} Happened */

const SAME_LOSS_MS = 60000;
const APART = 8;
const WIDEST = 48;
const MOST_TITLES = 6;
/** @type {{[kind: string]: string}} of the kinds that may be many */
const PLURALS = {
  change: 'changes',
  checkpoint: 'checkpoints',
  crash: 'programs started again'
};

/**
 * @param {JobModel} data
 * @returns {Happened[]}
 */
function changeMarks(data) {
  return data.placed().slice(1).filter((a) => !a.restart).map((a) => ({
    kind: 'change',
    step: a.at,
    text: 'v' + a.version,
    title: 'minibatches v' + a.version + ': ' + a.reason
  }));
}

/**
 * Attempts whose beginning the page did not see. Where no attempt has failed, the job was paused.
 * @param {JobModel} data
 * @returns {Happened[]}
 */
function restartMarks(data) {
  const seen = (/** @type {number} */ at) =>
      data.lost.some((l) => Math.abs(l.at - at) < SAME_LOSS_MS);
  const failed = (data.job.restarts ?? 0) > 0;
  const others =
      data.placed().filter((a) => a.restart && !resizeOf(data.job, a) && !seen(Date.parse(a.time)));
  return others.map((a) => ({
    kind: failed ? 'restart' : 'resume',
    step: a.at,
    text: failed ? 'restart' : 'goes on',
    title: failed ? 'a new attempt: ' + a.reason : 'the job goes on after a pause'
  }));
}

/**
 * Attempts with which an elastic job changed its number of nodes.
 * @param {JobModel} data
 * @returns {Happened[]}
 */
function resizeMarks(data) {
  return data.placed().filter((a) => a.restart).flatMap((a) => {
    const resize = resizeOf(data.job, a);
    const nodes = resize ? resize.from + '→' + resize.to + ' nodes' : '';
    return resize ? [{kind: 'resize', step: a.at, text: nodes, title: resizeText(resize)}] : [];
  });
}

/**
 * Programs of the user that ended and were started again.
 * @param {JobModel} data
 * @returns {Happened[]}
 */
function crashMarks(data) {
  return data.crashes.list.map((c) => ({
    kind: 'crash',
    step: data.curves.stepAtTime(c.time),
    time: Math.max(0, c.time), /* a job starts with its first step */
    text: 'program of ' + c.node + ' started again',
    title: c.node + ', rank ' + c.rank + ': ' + c.message
  }));
}

/**
 * @param {JobModel} data
 * @returns {Happened[]}
 */
function lossMarks(data) {
  return data.lost.map((l) => ({
    kind: 'lost',
    step: l.step,
    time: l.time,
    text: (l.node ? l.node + ' lost' : 'attempt lost') + ', restart',
    title: l.text || 'an attempt was lost'
  }));
}

/**
 * Workers that died while the others went on, and came back. A page that was opened later has the
 * change of minibatches, whose reason says it too.
 * @param {JobModel} data
 * @returns {Happened[]}
 */
function leaveMarks(data) {
  return data.left.map(
      (l) => ({kind: l.back ? 'resume' : 'left', step: l.step, text: l.text, title: l.text}));
}

/**
 * @param {JobModel} data
 * @returns {Happened[]}
 */
function rateMarks(data) {
  const schedule = data.job.spec?.optimizer?.schedule;
  const reached = data.job.progress?.epoch ?? -1;
  if (schedule?.type !== 'step') {
    return [];
  }
  return (schedule.at_epochs || [])
      .map((epoch) => ({epoch, step: data.curves.stepOfEpoch(epoch)}))
      .filter(({epoch, step}) => reached >= epoch && Number.isFinite(step))
      .map(({epoch, step}) => ({
        kind: 'rate',
        step,
        text: 'rate ×' + schedule.factor,
        title: 'the learning rate is multiplied by ' + schedule.factor + ' at epoch ' + epoch
      }));
}

/**
 * @param {JobModel} data
 * @returns {Happened[]}
 */
function checkpointMarks(data) {
  return data.checkpoints.map((c) => ({
    kind: 'checkpoint',
    step: c.step,
    time: c.time,
    text: '',
    title: 'checkpoint of step ' + c.step
  }));
}

/**
 * The mark of the failure, at the end of the curves.
 * @param {JobModel} data
 * @returns {Page.Mark[]}
 */
function failureMarks(data) {
  const {state, error, progress} = data.job;
  const x = state === 'failed' ? data.extent() : 0;
  const title = wordsOf(error) || 'the job failed';
  return x > 0 ? [{kind: 'failed', step: progress?.step ?? 0, x, text: 'failed', title}] : [];
}

/**
 * @param {JobModel} data
 * @param {string} [choice] all, changes or none
 * @returns {Page.Mark[]}
 */
export function marksOf(data, choice = 'all') {
  if (choice === 'none') {
    return [];
  }
  const marks = [
    ...changeMarks(data), ...restartMarks(data), ...resizeMarks(data), ...lossMarks(data),
    ...leaveMarks(data), ...crashMarks(data)
  ];
  if (choice === 'all') {
    marks.push(...rateMarks(data), ...checkpointMarks(data));
  }
  return marks.map((m) => ({...m, x: data.curves.xOfStep(m.step, m.time)}))
      .concat(failureMarks(data))
      .filter((m) => Number.isFinite(m.x))
      .sort((a, b) => a.x - b.x);
}

/**
 * Marks of one kind closer than 8 px become one with their count; a long run of them has one every
 * 48 px. Rare and important events (a lost node, a restart, a new rate) keep their own marks.
 * @param {Page.Mark[]} marks in the order of x
 * @param {number} pixels of one unit of x
 * @returns {Page.Mark[]}
 */
export function merged(marks, pixels) {
  /** @type {Page.Mark[][]} */
  const groups = [];
  /** @type {{[kind: string]: Page.Mark[]}} the newest group of each kind */
  const open = {};
  for (const mark of marks) {
    const group = open[mark.kind];
    const close = group && (mark.x - group[group.length - 1].x) * pixels < APART &&
        (mark.x - group[0].x) * pixels < WIDEST;
    if (close && PLURALS[mark.kind]) {
      group.push(mark);
    } else {
      open[mark.kind] = [mark];
      groups.push(open[mark.kind]);
    }
  }
  return groups.map((g) => (g.length > 1 ? together(g) : g[0]));
}

/**
 * @param {Page.Mark[]} group
 * @returns {Page.Mark}
 */
function together(group) {
  const titles = group.map((m) => m.title);
  const more = titles.length - MOST_TITLES;
  const count = group.length + ' ' + PLURALS[group[0].kind];
  return {
    ...group[0],
    x: (group[0].x + group[group.length - 1].x) / 2,
    text: group[0].text && count,
    title: (group[0].text ? '' : count + '\n') + titles.slice(0, MOST_TITLES).join('\n') +
        (more > 0 ? '\nand ' + more + ' more' : '')
  };
}

/**
 * Where smoothing starts anew: other marks do not change the curve.
 * @param {Page.Mark[]} marks
 */
export function cutsOf(marks) {
  return marks.filter((m) => ['lost', 'restart', 'rate'].includes(m.kind)).map((m) => m.x);
}
