/* How a run is doing, in one or two sentences: the first kind in each table that matches.
 *
 * does it learn?      diverged, too short, at chance, overfitting (learning.js)
 * does the loss fall? where no accuracy tells more         (trend.js)
 * does it go on so?   worsening, plateau, learnsByHeart        (standstill.js)
 * what limits it?     the exchange, loading data               (speed.js)
 * who is slow?        a straggler, or nobody: all is well      (balance.js)
 *
 * A run that learns nothing hears of that alone; else what limits it and who is slow are told too.
 * Each kind is a function from a Run to a verdict, or null where the run is not of it. A verdict
 * names the chart that shows it and, where there is one, the first thing to do. To add a kind: a
 * function, and its name in its table at the place that its weight deserves. Pure, tested in
 * tests/browser/test_verdict.py. */
import {perSample} from '../measures/measures.js';
import {known} from '../text/format.js';

import {balance} from './balance.js';
import {atChance, diverged, overfitting, tooShort} from './learning.js';
import {dataBound, exchangeBound} from './speed.js';
import {learnsByHeart, plateau, worsening} from './standstill.js';
import {trend} from './trend.js';

/**
 * What sentences are made of. `workers` are those that were measured; of a run that is over, with
 * their means over all of it. `losses` are train losses in their order, `loading` the share of a
 * step in which the median node loads data.
 * @typedef {{job: Api.Job, workers: Api.Worker[], assignments: Api.Assignment[], losses: number[],
 *            tests: Api.Evaluation[], loading: number, strategies: Api.CatalogEntry[],
 *            past: boolean}} Run
 */
/** @typedef {(run: Run) => Page.Verdict | null} Kind */

/** @type {Kind[]} */
const LEARNING =
    [diverged, tooShort, atChance, overfitting, trend, worsening, plateau, learnsByHeart];
/** @type {Kind[]} */
const LIMITS = [exchangeBound, dataBound];
const NOTHING_ELSE = ['diverged', 'short', 'chance'];

/**
 * @param {Kind[]} kinds
 * @param {Run} run
 */
function first(kinds, run) {
  for (const kind of kinds) {
    const found = kind(run);
    if (found) {
      return found;
    }
  }
  return null;
}

/**
 * @param {Api.Job} job
 * @param {Api.Assignment[]} assignments
 * @param {Page.Learned} learned
 * @param {boolean} past
 * @returns {Run}
 */
function runOf(job, assignments, learned, past) {
  const all = (past && learned.workers) || job.workers || [];
  return {
    job,
    assignments,
    past,
    workers: all.filter((w) => known(perSample(w))),
    losses: (learned.losses || []).filter(known),
    tests: learned.tests || [],
    loading: learned.loading ?? NaN,
    strategies: learned.strategies || []
  };
}

/**
 * @param {Api.Job} job
 * @param {Api.Assignment[]} assignments
 * @param {Page.Learned} learned
 * @param {boolean} past
 * @returns {Page.Verdict | null} null: nothing was measured yet
 */
export function judge(job, assignments, learned, past) {
  const run = runOf(job, assignments, learned, past);
  const balanced = run.workers.length ? balance(run) : null;
  const found = [first(LEARNING, run), first(LIMITS, run), balanced].flatMap((v) => v || []);
  if (found.length === 0) {
    return null;
  }
  const [main, ...others] = found;
  const alone = NOTHING_ELSE.includes(main.key);
  const also = alone ? [] : others.filter((v) => v.chart);
  return {
    ...main,
    straggler: alone ? undefined : balanced?.straggler,
    parts: [...main.parts, ...also.flatMap((v) => [' ', ...v.parts])]
  };
}
