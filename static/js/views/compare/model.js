/* The data of the comparison: the chosen runs, each with its job, curves, evaluations and
   staleness. Event "change". */
import {active} from '../../elements/states.js';
import {curveOf as curveOfLogged} from '../../measures/logged.js';
import {last, readEvaluations, stepTimes} from '../../measures/measures.js';
import {likeChance} from '../../sentences/learning.js';
import {get, job as path} from '../../service/api.js';
import {listen} from '../../service/events.js';
import {classesOf} from '../../spec/spec.js';
import {known} from '../../text/format.js';

/**
 * @typedef {{id: string, job: Api.Job, curves: {[name: string]: Page.Curve},
 *            logged: {[name: string]: Page.Curve}, tests: Api.Evaluation[],
 *            staleness: Api.NodeStaleness[]}} Run
 */

const POLL_MS = 5000;
const POINTS = 380;
export const MOST = 8;

/** @param {(number | null)[]} values */
const numbers = (values) => values.map((v) => (typeof v === 'number' ? v : NaN));

/**
 * @param {Api.Series} c
 * @returns {Page.Curve}
 */
function curveOf(c) {
  const [min, max, mean] = [c.min, c.max, c.mean].map(numbers);
  return {x: c.x, min, max, mean, total: c.total_points};
}

/**
 * What the run's program logged.
 * @param {Api.Job} job
 * @param {Page.Axis} axis
 * @returns {Promise<Run['logged']>}
 */
async function readLogged(job, axis) {
  const none = {metrics: []};
  const {metrics} =
      job.logged ? await get(path(job.id, 'logged'), {points: POINTS}).catch(() => none) : none;
  return Object.fromEntries(metrics.map((/** @type {Api.LoggedMetric} */ m) => [m.name,
                                            curveOfLogged(m, axis, job.program?.samples ?? 0)]));
}

/**
 * Share of a step that the nodes of a run wait.
 * @param {Run} run
 */
export function waitShare(run) {
  const steps = stepTimes(run.job.workers || []).filter((s) => s.all > 0);
  return steps.reduce((sum, s) => sum + s.wait / s.all, 0) / steps.length;
}

/**
 * The accuracy that a run holds from an evaluation on, which this one and the next have. The last
 * evaluation counts by itself only if it is the only one.
 * @param {Api.Evaluation[]} tests
 * @param {number} i
 */
function heldAt(tests, i) {
  const next = tests[i + 1];
  const held = next        ? Math.min(tests[i].accuracy, next.accuracy)
      : tests.length === 1 ? tests[i].accuracy
                           : -Infinity;
  return known(held) ? held : -Infinity;
}

/**
 * Seconds until a run reached an accuracy and held it.
 * @param {Run} run
 * @param {number} goal
 */
export function timeTo({tests}, goal) {
  return tests.find((t, i) => heldAt(tests, i) >= goal)?.time ?? NaN;
}

/**
 * The highest accuracy that a run held.
 * @param {Run} run
 */
export function heldAccuracy({tests}) {
  return Math.max(...tests.map((t, i) => heldAt(tests, i)), -Infinity);
}

/** @param {Run} run */
export function bestAccuracy(run) {
  return Math.max(...run.tests.map((t) => t.accuracy).filter(known), -Infinity);
}

/** @param {Run} run */
export function leastLoss(run) {
  return Math.min(...run.tests.map((t) => t.loss).filter(known), Infinity);
}

/**
 * Whether a run classified no better than guessing does.
 * @param {Run} run
 */
export function guesses(run) {
  const held = heldAccuracy(run);
  return held > 0 && held <= likeChance(classesOf(run.job.spec));
}

/**
 * The highest round accuracy that all runs have held which have results and did not just guess; NaN
 * with fewer than two.
 * @param {Run[]} runs
 */
export function goalOf(runs) {
  const best = runs.filter((r) => !guesses(r)).map(heldAccuracy).filter((v) => v > 0);
  return best.length > 1 ? Math.floor(Math.min(...best) * 100) / 100 : NaN;
}

export class CompareModel extends EventTarget {
  /** @param {string[]} ids */
  constructor(ids) {
    super();
    this.ids = ids.slice(0, MOST);
    /** @type {Page.Axis} */
    this.axis = 'time';
    /** @type {Run[]} */
    this.runs = [];
    /** The catalogue, for settings' defaults. */
    /** @type {Api.Catalog} */
    this.catalog = {};
    this.timer = 0;
    this.closed = false;
    this.unlisten = () => {};
  }

  async start() {
    this.catalog = await get('catalog').catch(() => ({}));
    this.dispatchEvent(new Event('change'));
    if (this.closed) {
      return;
    }
    const again = () => this.read().catch(() => {});
    this.unlisten = listen({gap: again, job: ({job}) => this.ids.includes(job) && again()});
    this.timer = window.setInterval(
        () => !document.hidden && this.runs.some((r) => active(r.job.state)) && again(), POLL_MS);
  }

  close() {
    this.closed = true;
    clearInterval(this.timer);
    this.unlisten();
  }

  /** @param {Page.Axis} axis */
  setAxis(axis) {
    this.axis = axis;
    return this.read();
  }

  /* Runs that are gone are dropped. */
  async read() {
    if (!this.ids.length) {
      return;
    }
    const found = await Promise.all(this.ids.map((id) => this.readRun(id).catch(() => null)));
    if (this.closed) {
      return;
    }
    this.runs = found.flatMap((r) => (r ? [r] : []));
    if (this.runs.length < found.length) {
      this.ids = this.runs.map((r) => r.id);
    }
    this.dispatchEvent(new Event('change'));
  }

  /**
   * @param {string} id
   * @returns {Promise<Run>}
   */
  async readRun(id) {
    const params = {names: 'train_loss,test_accuracy,test_loss', x: this.axis, points: POINTS};
    const [job, series, tests, stale] = await Promise.all([
      get(path(id)), get(path(id, 'series'), params),
      get(path(id, 'evaluations')).catch(() => ({evaluations: []})),
      get(path(id, 'staleness')).catch(() => ({nodes: []}))
    ]);
    /** @type {Api.Series[]} */
    const wide = series.series.filter((/** @type {Api.Series} */ c) => !c.node);
    return {
      id,
      job,
      logged: await readLogged(job, this.axis),
      curves: Object.fromEntries(wide.map((c) => [c.name, curveOf(c)])),
      tests: readEvaluations(tests.evaluations || []),
      staleness: stale.nodes || []
    };
  }

  commonGoal() {
    return goalOf(this.runs);
  }

  /* The greatest x of all curves. */
  extent() {
    const ends = this.runs.flatMap((r) => Object.values(r.curves).map((c) => last(c.x)));
    return Math.max(1e-9, ...ends.filter(Number.isFinite));
  }
}
