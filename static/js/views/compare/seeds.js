/* Runs that differ only in their seeds, and how far apart their results are: a lead means
   something only if it exceeds that. Pure. */
import {alike, known, list} from '../../format.js';

import {letterOf} from './letters.js';
import {timeTo} from './model.js';

/** @typedef {import('./model.js').Run} Run */
/** @typedef {{letters: string[], times: number[]}} Group */

/**
 * Runs of one spec, names and seeds aside.
 * @param {Run[]} runs
 * @param {number} goal accuracy to reach
 */
export function groupsOf(runs, goal) {
  /** @type {Map<string, Group>} */
  const groups = new Map();
  runs.forEach((run, i) => {
    const {name, seed, ...rest} = run.job.spec || {};
    const key = JSON.stringify(rest);
    const group = groups.get(key) || {letters: [], times: []};
    group.letters.push(letterOf(i));
    group.times.push(timeTo(run, goal));
    groups.set(key, group);
  });
  return [...groups.values()];
}

/** @param {number[]} times */
const range = (times) => Math.max(...times) - Math.min(...times);

/** @param {number[]} times */
const meanOf = (times) => times.reduce((sum, t) => sum + t, 0) / times.length;

/**
 * What the seeds tell of the lead; that they tell nothing, where each spec ran once.
 * @param {Run[]} runs
 * @param {number} goal
 */
export function seedNote(runs, goal) {
  const measured = groupsOf(runs, goal).filter((g) => g.times.every(known));
  const several = measured.filter((g) => g.times.length > 1);
  if (several.length === 0) {
    return runs.length > 1 ? ' One run each: small differences may be chance.' : '';
  }
  const told = several.map(({letters, times}) => {
    const [least, most] = alike(Math.min(...times), Math.max(...times));
    return ' ' + list(letters) + ' differ in their seeds alone: ' + least + ' to ' + most + '.';
  });
  const [first, second] = measured.map((g) => meanOf(g.times)).sort((a, b) => a - b);
  const widest = Math.max(...several.map((g) => range(g.times)));
  const within = second - first <= widest;
  const lead = known(second) ? ' The lead of the better settings is ' +
          (within ? 'within' : 'beyond') + ' what seeds make.'
                             : '';
  return told.join('') + lead;
}
