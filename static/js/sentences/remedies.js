/* What can be done about a job that failed: each remedy with its changes and the spec of the new
 * job. To add one: a function that gives a Remedy or null, and its name in REMEDIES. Pure. */
import {bestEvaluation, rateAt} from '../measures/measures.js';
import {classesOf} from '../spec/spec.js';
import {specAgain} from '../spec/tags.js';
import {duration, known, list, loss, percent, place, plain, plural} from '../text/format.js';

import {becameNaN} from './failure.js';
import {fault} from './fault.js';
import {likeChance} from './learning.js';
import {rateFromFarAbove} from './nextrun.js';

/**
 * `button` is what its button says.
 * @typedef {{title: string, effect: string, button: string, spec: Api.Spec}} Remedy
 */
/**
 * `alike`: every node failed with the same words. `nodes`: those of the cluster, by which it is
 * known who shares a host.
 * @typedef {{job: Api.Job, artifacts: string[], tests: Api.Evaluation[], alike?: boolean,
 *            nodes?: Api.Node[]}} Failed
 */

const BEST = 'best.safetensors';
const AMPLE = 1.2; /* times the seconds that are needed */
/* Codes of errors whose cause may be gone. */
const PASSING = ['peer', 'timeout', 'unavailable', 'io', 'device', 'not_found'];
/** Among the artifacts: there is a checkpoint from which the job can go on. */
export const CHECKPOINTS = 'checkpoints';

/**
 * The job's spec for a further run.
 * @param {Api.Job} job
 * @param {Partial<Api.Spec>} changes
 * @returns {Api.Spec}
 */
const again = (job, changes) => ({...specAgain(job), name: job.name + ' again', ...changes});

/**
 * The spec that goes on with the job's last checkpoint.
 * @param {Api.Job} job
 */
export const continued = (job) =>
    again(job, {init: {path: job.id + '/' + CHECKPOINTS, 'continue': true}});

/**
 * A schedule as it is after some epochs, whose steps so far are in the rate already; none where the
 * rate would rise again, since a rate that is too high ended the job.
 * @param {Api.Schedule | undefined} schedule
 * @param {number} done epochs
 * @param {number} rate to begin with
 * @returns {Api.Schedule | undefined}
 */
function restOf(schedule, done, rate) {
  const {warmup_epochs: over, ...rest} = schedule || {};
  const left = (rest.at_epochs || []).map((e) => e - done).filter((e) => e > 0);
  if ((rest.factor ?? 0) > 1 || (rest.floor ?? 0) > rate) {
    return undefined;
  }
  return rest.type === 'step' ? (left.length ? {...rest, at_epochs: left} : undefined)
                              : schedule && rest;
}

/**
 * The evaluation whose parameters are worth going on from: the best, if it is better than guessing.
 * @param {Failed} failed
 */
function goodOne({job, tests}) {
  const best = bestEvaluation(tests.filter((t) => known(t.accuracy) || known(t.loss)));
  const guessing = likeChance(classesOf(job.spec));
  return best && !(best.accuracy <= guessing) ? best : null;
}

/**
 * Whether the network had lost what it had learned when the job failed, whatever ended it.
 * @param {Omit<Failed, 'artifacts'>} failed
 */
const lostIt = ({job, tests}) =>
    tests.length > 0 && tests[tests.length - 1].accuracy <= likeChance(classesOf(job.spec));

/** @param {Api.Evaluation} best */
const quality = (best) =>
    known(best.accuracy) ? percent(best.accuracy) + ' correct' : 'test loss ' + loss(best.loss);

/**
 * From the best checkpoint, with half the rate that made it. If the rate changes just then, half of
 * the rate after it, since a rate that rose there may have ended the job.
 * @param {Failed} failed
 * @returns {Remedy | null}
 */
function resumeFromBest(failed) {
  const {job, artifacts} = failed;
  const {optimizer, epochs = 1} = job.spec;
  const best = goodOne(failed);
  const done = best ? Math.floor(best.epoch) : 0;
  const before = rateAt(job.spec, Math.max(0, done - 1e-6));
  const rate = Math.min(before, rateAt(job.spec, done)) / 2;
  const wrong = becameNaN(job) || lostIt(failed);
  if (!wrong || !best || !artifacts.includes(BEST) || !(rate > 0) || done >= epochs) {
    return null;
  }
  const {schedule, ...rest} = optimizer || {};
  const epoch = place(best.epoch, 1);
  const later = restOf(schedule, done, rate);
  return {
    title: 'Resume from the last good checkpoint with half the rate',
    effect: 'the parameters of epoch ' + epoch + ', ' + quality(best) + '; learning rate ' +
        plain(rate) + '; the ' + plural(epochs - done, 'epoch') + ' that are left',
    button: 'Resume from epoch ' + epoch,
    spec: again(job, {
      init: job.id + '/' + BEST,
      epochs: epochs - done,
      optimizer: {...rest, learning_rate: rate, ...(later && {schedule: later})}
    })
  };
}

/**
 * From the beginning, if no good checkpoint was kept.
 * @param {Failed} failed
 * @returns {Remedy | null}
 */
function startSlower(failed) {
  const {job} = failed;
  const rate = job.spec?.optimizer?.learning_rate;
  if (!becameNaN(job) || !rate || resumeFromBest(failed)) {
    return null;
  }
  const usual = rateFromFarAbove(job);
  const slower = known(usual) ? usual : Number((rate / 10).toPrecision(6));
  return {
    title: 'Start again with a ' + (known(usual) ? 'usual' : 'tenth of the') + ' rate',
    effect: 'learning rate ' + plain(slower) + ' instead of ' + plain(rate) +
        '; from the beginning, since no checkpoint is good',
    button: 'Start again',
    spec: again(job, {optimizer: {...job.spec.optimizer, learning_rate: slower}})
  };
}

/* How programs are given their learning rate. */
const RATE_ARGUMENT = /^--(lr|learning[-_]rate)(=|$)/;

/**
 * A user's program that is given its rate as an argument, "--lr 0.1" or "--lr=0.1": that argument,
 * and those with part of its rate; null for any other.
 * @param {Api.Job} job
 * @param {number} part
 */
function slowerProgram({spec: {program}}, part) {
  const args = program?.args ?? [];
  const at = args.findIndex((word) => RATE_ARGUMENT.test(word));
  const [name, inline] = (args[at] ?? '').split('=');
  const given = inline ?? args[at + 1];
  const rate = at < 0 ? NaN : Number(given || NaN);
  const slower = String(Number((rate * part).toPrecision(6)));
  const put = inline === undefined ? [name, slower] : [name + '=' + slower];
  return rate > 0 ? {
    change: name + ' ' + slower + ' instead of ' + given,
    program: {...program, args: [...args.slice(0, at), ...put, ...args.slice(at + put.length)]}
  }
                  : null;
}

/**
 * Its epochs begin anew: how many of them its schedule counts, the program alone knows.
 * @param {Failed} failed
 * @returns {Remedy | null}
 */
function startProgramFromBest(failed) {
  const {job, artifacts} = failed;
  const best = goodOne(failed), slower = slowerProgram(job, 1 / 2);
  if (!(becameNaN(job) || lostIt(failed)) || !best || !artifacts.includes(BEST) || !slower) {
    return null;
  }
  return {
    title: 'Start from the best parameters with half the rate',
    effect: 'those of epoch ' + place(best.epoch, 1) + ', ' + quality(best) + '; ' + slower.change +
        '; the epochs begin anew',
    button: 'Start from epoch ' + place(best.epoch, 1),
    spec: again(job, {init: job.id + '/' + BEST, program: slower.program})
  };
}

/**
 * @param {Failed} failed
 * @returns {Remedy | null}
 */
function startProgramSlower(failed) {
  const {job} = failed;
  const slower = slowerProgram(job, 1 / 10);
  return !becameNaN(job) || !slower || startProgramFromBest(failed) ? null : {
    title: 'Start again with a tenth of the rate',
    effect: slower.change + '; from the beginning',
    button: 'Start again',
    spec: again(job, {program: slower.program})
  };
}

/**
 * Whether a job with a checkpoint may go on where it ended: a lost node may be back, and the cause
 * of a program's failure (a full disk, a missing file) may be gone.
 * @param {Omit<Failed, 'artifacts'>} failed
 */
export const mayGoOn = ({job, tests}) =>
    (PASSING.includes(job.error?.code || '') || Boolean(job.error?.program)) && !becameNaN(job) &&
    !lostIt({job, tests});

/**
 * Seconds that all epochs of a job need which has trained as long as it may; NaN for any other.
 * @param {Api.Job} job
 */
function neededTime({error, progress, seconds = 0, spec}) {
  const most = spec?.max_seconds ?? 0;
  const ranOut = error?.code === 'timeout' && !error.node && most > 0 && seconds >= 0.9 * most;
  return ranOut ? Number((AMPLE * most / (progress?.fraction ?? NaN)).toPrecision(2)) : NaN;
}

/**
 * Where it ended, with its optimizer's state.
 * @param {Failed} failed
 * @returns {Remedy | null}
 */
function goOn(failed) {
  if (!failed.artifacts.includes(CHECKPOINTS) || !mayGoOn(failed)) {
    return null;
  }
  const needed = neededTime(failed.job);
  const spec = continued(failed.job);
  const cause = known(needed) ? 'with ' + duration(needed) : 'if the cause is gone';
  return {
    title: 'Go on from the last checkpoint',
    effect: 'where it ended, ' + cause + '; the optimizer and the epochs go on too',
    button: 'Go on',
    spec: known(needed) ? {...spec, max_seconds: needed} : spec
  };
}

/**
 * From the beginning with enough time: otherwise it would end in the same place.
 * @param {Failed} failed
 * @returns {Remedy | null}
 */
function withTime({job}) {
  const needed = neededTime(job);
  return known(needed) ? {
    title: 'Start again with more time',
    effect: duration(needed) + ' instead of ' + duration(job.spec.max_seconds || 0) +
        ', in which it came ' + percent(job.progress?.fraction ?? 0) +
        ' of the way; from the beginning',
    button: 'Start again',
    spec: again(job, {max_seconds: needed})
  }
                       : null;
}

/**
 * On the nodes that are not at fault.
 * @param {Failed} failed
 * @returns {Remedy | null}
 */
function withoutNode(failed) {
  const {at, others} = fault(failed);
  return at.length && others.length ? {
    title: 'Train without ' + list(at),
    effect: 'on ' + list(others) + ', with the same global batch',
    button: 'Start without ' + (at.length > 1 ? 'them' : 'it'),
    spec: again(failed.job, {nodes: others, workers: others.length})
  }
                                    : null;
}

/**
 * The same once more: a lost node may be back.
 * @param {Failed} failed
 * @returns {Remedy | null}
 */
function onceMore({job}) {
  return PASSING.includes(job.error?.code || '') && !known(neededTime(job)) ? {
    title: 'Start again as it was',
    effect: 'if the cause is gone; from the beginning',
    button: 'Start again',
    spec: again(job, {})
  }
                                                                            : null;
}

const REMEDIES = [
  resumeFromBest, startSlower, startProgramFromBest, startProgramSlower, goOn, withTime,
  withoutNode, onceMore
];

/**
 * @param {Failed} failed
 * @returns {Remedy[]}
 */
export function remedies(failed) {
  return REMEDIES.flatMap((remedy) => remedy(failed) || []);
}
