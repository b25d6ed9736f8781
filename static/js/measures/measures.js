/* Figures that are computed from a job's numbers: medians, the parts of a step, an equal split,
   the rest of the run. Pure; NaN where something is not known yet. */
import {serviceNow} from '../service/servicetime.js';
import {globalBatch, goesOnFrom, isServed} from '../spec/spec.js';
import {duration, known, plural, seconds, whole} from '../text/format.js';

/* Values that differ by less count as one. */
const MOSTLY = 0.95;

/** @param {number[]} values */
export function median(values) {
  const v = values.filter(known).sort((a, b) => a - b);
  if (v.length === 0) {
    return NaN;
  }
  return v.length % 2 ? v[(v.length - 1) / 2] : (v[v.length / 2 - 1] + v[v.length / 2]) / 2;
}

/**
 * The mean of the known values.
 * @param {number[]} values
 */
export function mean(values) {
  const v = values.filter(known);
  return v.length ? v.reduce((sum, x) => sum + x, 0) / v.length : NaN;
}

/**
 * Whether a loss rose by more than so much of what it was. That of a user's program may be below 0,
 * as a logarithm of a likelihood is.
 * @param {number} from
 * @param {number} to
 * @param {number} share
 */
export const rose = (from, to, share) => to - from > share * Math.abs(from);

/**
 * @param {number} from
 * @param {number} to
 * @param {number} share
 */
export const fell = (from, to, share) => from - to > share * Math.abs(from);

/**
 * The last value of a list.
 * @param {number[]} values
 */
export function last(values) {
  return values.length ? values[values.length - 1] : NaN;
}

/**
 * Seconds that a node itself takes for its minibatch: loading data that computing did not hide, and
 * computing. Minibatches are made from it.
 * @param {{load_seconds?: number | null, compute_seconds: number}} step a worker's, or a row
 */
export const ownSeconds = (step) => (step.load_seconds || 0) + (step.compute_seconds || 0);

/**
 * The same for one sample.
 * @param {Api.Worker} worker
 */
export function perSample(worker) {
  return worker.batch > 0 && ownSeconds(worker) > 0 ? ownSeconds(worker) / worker.batch : NaN;
}

/**
 * The time of each worker's step, and its parts.
 * @param {(Api.Worker | Api.PredictedWorker)[]} workers
 */
export function stepTimes(workers) {
  return workers.map((w) => {
    const own = ownSeconds(w);
    const compute = w.compute_seconds || 0;
    const exchange = w.exchange_seconds || 0;
    const wait = w.wait_seconds || 0;
    return {
      node: w.node,
      load: own - compute,
      compute,
      own,
      exchange,
      wait,
      all: own + exchange + wait
    };
  });
}

/**
 * A node's own time under an equal split: along the line through the origin, scaled by the node's
 * own speed, unless the fixed part of its step is known.
 * @param {Api.Worker[]} workers
 * @param {number} globalBatch
 * @param {{[node: string]: number}} [fixed] seconds
 */
export function equalSplit(workers, globalBatch, fixed = {}) {
  const share = globalBatch / Math.max(1, workers.length);
  return workers.map((w) => {
    const a = known(fixed[w.node]) ? fixed[w.node] : 0;
    return w.batch > 0 ? a + (ownSeconds(w) - a) * (share / w.batch) : NaN;
  });
}

/**
 * Samples per second if the nodes only loaded their data and computed.
 * @param {Api.Worker[]} workers
 */
export function idealRate(workers) {
  return workers.reduce((sum, w) => sum + (ownSeconds(w) > 0 ? w.batch / ownSeconds(w) : 0), 0);
}

/**
 * Samples per second over all the time that a job trained; NaN before its first step, and where the
 * samples of another job are counted with its own. A run's last seconds, which `metrics` tells, say
 * little of it.
 * @param {Api.Job} job
 */
export function meanRate(job) {
  const {progress, seconds} = job;
  const samples = goesOnFrom(job) ? 0 : progress?.samples ?? 0;
  return samples > 0 && (seconds ?? 0) > 0 ? samples / Number(seconds) : NaN;
}

/**
 * Time between two versions of the model: the samples of a version by the samples of a second. In a
 * virtual job both are virtual.
 * @param {Api.Job} job
 */
export function secondsPerVersion({progress, metrics}) {
  const rate = metrics?.samples_per_second || 0;
  return progress && progress.step > 0 && rate > 0 ? progress.samples / progress.step / rate : NaN;
}

/**
 * Steps of the whole cluster, a global batch each, where the model's updates are more than those:
 * under a server each gradient is an update. NaN where a step is an update.
 * @param {Api.Job} job
 */
export function globalSteps(job) {
  const {progress} = job;
  const steps = Math.ceil((progress?.samples ?? NaN) / globalBatch(job));
  /* samples may lag behind the steps */
  return isServed(job) && progress && steps > 0 && progress.step > 1.2 * steps ? steps : NaN;
}

/**
 * Whether a job runs on the simulator, so that its times are virtual.
 * @param {Api.Job} job
 */
export const isVirtual = (job) => Boolean(job.spec?.cluster);

/**
 * What a queued job waits for, until the service says why. A virtual job takes no node.
 * @param {Api.Job} job
 */
export const awaited = (job) =>
    (isVirtual(job) ? 'its turn' : plural(job.spec?.workers || 1, 'free node'));

/**
 * Seconds that a job took from its start to its end, pauses included; a virtual job by its own
 * clock. A job has started once all its nodes have made a step. So a short job may have trained for
 * longer than that, and one that was cancelled before counts only its training.
 * @param {Api.Job} job
 */
export function tookSeconds(job) {
  if (isVirtual(job)) {
    return job.virtual_seconds ?? job.seconds ?? NaN;
  }
  const wall = (Date.parse(job.finished || '') - Date.parse(job.started || '')) / 1000;
  const trained = job.seconds ?? 0;
  return known(wall) ? Math.max(wall, trained) : job.finished && trained > 0 ? trained : NaN;
}

/**
 * Seconds of them that were training: without pauses, waiting for nodes and the start of attempts.
 * NaN where that is not told, or all of it was.
 * @param {Api.Job} job
 */
export function trainedSeconds(job) {
  const trained = isVirtual(job) ? NaN : job.seconds ?? NaN;
  return trained < MOSTLY * tookSeconds(job) ? trained : NaN;
}

/**
 * How long something took, in words; nothing takes 0 s.
 * @param {number} took seconds
 */
export const lasted = (took) => (took < 0.995 ? seconds(took) : duration(took));

/**
 * The same in words: "12 min (8 min of it training)"; of a virtual job "17 min of virtual time".
 * @param {Api.Job} job
 */
export function tookText(job) {
  const took = tookSeconds(job);
  const trained = trainedSeconds(job);
  return lasted(took) + (isVirtual(job) && known(took) ? ' of virtual time' : '') +
      (known(trained) ? ' (' + lasted(trained) + ' of it training)' : '');
}

/**
 * "3 of 10", or "3" if a program's own loop decides how many.
 * @param {Api.Job} job that trains
 */
export function epochOf(job) {
  const {epoch = 0, epochs = 0} = job.progress || {}, at = Math.floor(epoch) + 1;
  return epochs >= 1 ? whole(Math.min(Math.ceil(epochs), at)) + ' of ' + whole(Math.ceil(epochs))
                     : whole(at);
}

/**
 * Seconds of the clock until a running job ends: by its present speed, or by the time it has taken
 * so far, as for a virtual job, whose speed is that of another clock.
 * @param {Api.Job} job
 */
export function remaining(job) {
  const f = job.progress?.fraction || 0;
  const rate = job.metrics?.samples_per_second || 0;
  const samples = job.progress?.samples || 0;
  if (job.state !== 'running' || !(f > 0) || f >= 1) {
    return NaN;
  }
  if (rate > 0 && samples > 0 && !isVirtual(job)) {
    return samples * (1 / f - 1) / rate;
  }
  return job.started ? (serviceNow() - Date.parse(job.started)) / 1000 * (1 / f - 1) : NaN;
}

/**
 * The share of a step that the median node spends loading data. Of rows that do not tell it, the
 * part of the time from one step to the next in which a node neither computes nor exchanges nor
 * waits; medians leave out the steps after which the network was tested.
 * @param {Api.NodeRows[]} nodes
 */
export function loadingShare(nodes) {
  return median(nodes.map(({rows}) => median(rows.slice(1).map((row, i) => {
    const others = row.exchange_seconds + row.wait_seconds;
    if (known(row.load_seconds)) {
      return row.load_seconds / (ownSeconds(row) + others);
    }
    const all = row.time - rows[i].time;
    const told = row.compute_seconds + others;
    return all > 0 && row.attempt === rows[i].attempt ? Math.max(0, 1 - told / all) : NaN;
  }))));
}

/**
 * The learning rate of an epoch, by schedule and warm-up, as job/spec/spec.c has it.
 * @param {Api.Spec | undefined} spec
 * @param {number} epoch
 */
export function rateAt(spec, epoch) {
  const schedule = spec?.optimizer?.schedule || {};
  const rate = spec?.optimizer?.learning_rate;
  if (!known(rate)) {
    return NaN;
  }
  const warmup = schedule.warmup_epochs || 0;
  if (warmup > 0 && epoch < warmup) {
    return rate * epoch / warmup;
  }
  if (schedule.type === 'step') {
    return rate * (schedule.factor ?? 0.1) **
        (schedule.at_epochs || []).filter((e) => epoch >= e).length;
  }
  if (schedule.type === 'cosine') {
    const floor = schedule.floor || 0;
    const done = Math.min(1, epoch / (spec?.epochs || 1));
    return floor + (rate - floor) * 0.5 * (1 + Math.cos(Math.PI * done));
  }
  return rate;
}

/**
 * Evaluations from the service, with NaN in place of null.
 * @param {any[]} list
 * @returns {Api.Evaluation[]}
 */
export const readEvaluations = (list) =>
    list.map((e) => ({...e, loss: e.loss ?? NaN, accuracy: e.accuracy ?? NaN}));

/**
 * Whether a job's figures have an accuracy, as far as that is known: numbers that are predicted
 * have none, and a program need not tell it.
 * @param {Api.Job} job
 * @param {Api.Evaluation[]} evaluations
 */
export const hasAccuracy = ({spec}, evaluations) => evaluations.length
    ? evaluations.some((e) => known(e.accuracy))
    : typeof spec?.model === 'string' || spec?.model?.loss !== 'mse';

/**
 * The score of an evaluation, as in worker/exchange/strategy.c; the best has the greatest.
 * @param {Api.Evaluation} e
 */
const score = ({accuracy, loss}) => known(accuracy) ? accuracy : known(loss) ? -loss : -Infinity;

/**
 * The evaluation with the best accuracy, or the least loss where there is none; the first of
 * equals.
 * @param {Api.Evaluation[]} evaluations
 */
export function bestEvaluation(evaluations) {
  return evaluations.reduce((/** @type {Api.Evaluation | null} */ best, e) =>
                                (best && score(best) >= score(e) ? best : e),
      null);
}

/**
 * A job's assignments with a new one. It replaces the newest if it has the same version: the first
 * one comes again once the size of the training set is known.
 * @param {Api.Assignment[]} assignments
 * @param {Api.Assignment} told
 */
export function withNew(assignments, told) {
  const newest = assignments[assignments.length - 1];
  return [...(newest?.version === told.version ? assignments.slice(0, -1) : assignments), told];
}
