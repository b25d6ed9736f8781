/* What happened to a job, as marks on its x axis: minibatch changes, lost nodes and restarts,
   changes of the learning rate, checkpoints. */

/** @typedef {import('./model.js').JobModel} JobModel */
/** @typedef {Omit<Page.Mark, 'x'>} Happened */

const SAME_LOSS_MS = 60000;

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
 * Restarts whose loss the page did not see.
 * @param {JobModel} data
 * @returns {Happened[]}
 */
function restartMarks(data) {
  const seen = (/** @type {number} */ at) =>
      data.lost.some((l) => Math.abs(l.at - at) < SAME_LOSS_MS);
  return data.placed()
      .filter((a) => a.restart && !seen(Date.parse(a.time)))
      .map(
          (a) => (
              {kind: 'restart', step: a.at, text: 'restart', title: 'a new attempt: ' + a.reason}));
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
 * @param {JobModel} data
 * @param {string} [choice] all, changes or none
 * @returns {Page.Mark[]}
 */
export function marksOf(data, choice = 'all') {
  if (choice === 'none') {
    return [];
  }
  const marks = [...changeMarks(data), ...restartMarks(data), ...lossMarks(data)];
  if (choice === 'all') {
    marks.push(...rateMarks(data), ...checkpointMarks(data));
  }
  return marks.map((m) => ({...m, x: data.curves.xOfStep(m.step, m.time)}))
      .filter((m) => Number.isFinite(m.x))
      .sort((a, b) => a.x - b.x);
}

/**
 * Where smoothing starts anew.
 * @param {Page.Mark[]} marks
 */
export function cutsOf(marks) {
  return marks.filter((m) => m.kind !== 'change' && m.kind !== 'checkpoint').map((m) => m.x);
}
