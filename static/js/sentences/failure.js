/* Why a job failed, as a sentence: the cause, and not the node on which it showed first. Pure. */
import {globalSteps, rateAt} from '../measures/measures.js';
import {known, plain, whole} from '../text/format.js';

import {howOf, saidOf} from './program.js';

/** @param {Api.Job} job */
export const becameNaN = (job) => job.error?.code === 'not_finite';

/**
 * The step of a failure, counted as in the page's head: a server's update is not a step of the
 * cluster.
 * @param {Api.Job} job
 */
function aboutStep(job) {
  const step = job.progress?.step;
  return step ? (known(globalSteps(job)) ? ' about update ' : ' about step ') + whole(step) : '';
}

/**
 * @param {Api.Job} job
 * @returns {Page.Verdict}
 */
function notFinite(job) {
  const rate = rateAt(job.spec, job.progress?.epoch ?? 0);
  const began = job.spec?.optimizer?.learning_rate;
  const own = (job.spec?.program ? '. The program sets its own' : '') +
      ': a smaller one is the first to try.';
  const raised = began && rate > began ? ' there, after it began at ' + plain(began) : '';
  return {
    parts: ['The loss became NaN or infinite' + aboutStep(job) + '.'],
    evidence:
        (job.error?.node ? 'It was seen on ' + job.error.node + ' first, which is not its cause. '
                         : '') +
        'A learning rate that is too high does this' +
        (rate ? '; it was ' + plain(rate) + raised + '.' : own),
    key: 'failed:nan',
    chart: 'loss'
  };
}

/**
 * @param {Api.Job} job
 * @param {boolean} alike the programs of all nodes failed with the same words
 * @returns {Page.Verdict | null}
 */
function ofProgram(job, alike) {
  const end = job.error?.program;
  if (!end) {
    return null;
  }
  const at = end.every_rank, said = saidOf(end).replace(/\.$/, ''), every = at || alike;
  const where = at ? ' in step ' + whole(at.step) + ' of epoch ' + whole(at.epoch) : aboutStep(job);
  const text = ' ' + howOf(end) + where + (said ? ': ' + said : '') + '.';
  const node = job.error?.node;
  const parts = every ? ['The program of every node' + text]
      : node          ? ['The program on ', {node}, text]
                      : ['The program' + text];
  const evidence = end.signal === 'SIGKILL' ? 'The kernel ends a process so where memory runs out.'
      : /^FileNotFoundError/.test(end.exception || '')
      ? 'Nodes get the program\'s folder alone. Data are opened by a path that each node has, ' +
          'such as one beneath $EVENSTEP_DATA.'
      : '';
  return {parts, evidence, key: every ? 'failed:all' : 'failed'};
}

/**
 * @param {Api.Job} job
 * @param {boolean} [alike] all nodes failed with the same words
 * @returns {Page.Verdict}
 */
export function failure(job, alike = false) {
  const {node, lost, code, message} = job.error || {};
  if (becameNaN(job)) {
    return notFinite(job);
  }
  const program = ofProgram(job, alike);
  if (program) {
    return program;
  }
  const about = aboutStep(job);
  const text = (lost || message || 'no cause was reported').replace(/\.$/, '') + '.';
  if (node && lost) {
    return {parts: [{node}, ' was lost' + about + ': ' + text], key: 'failed'};
  }
  return node && code !== 'data' ? {parts: [{node}, ' failed' + about + ': ', text], key: 'failed'}
                                 : {parts: ['The job failed: ', text], key: 'failed'};
}
