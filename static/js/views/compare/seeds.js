/* Runs that differ only in their seeds, and how far apart their results are: a lead means
   something only if it exceeds that. Pure. */
import {mean} from '../../measures/measures.js';
import {withoutSeed} from '../../spec/spec.js';
import {alike, known, list, percent, spans} from '../../text/format.js';

import {letterOf} from './letters.js';
import {timeTo} from './model.js';

/** @typedef {import('./model.js').Run} Run */
/**
 * @typedef {{at: number[], times: number[], seeds: Set<number | undefined>}} Group  numbers of
 * its runs, their times and seeds
 */

/**
 * Runs of one spec, names and seeds aside.
 * @param {Run[]} runs
 * @param {number} goal accuracy to reach
 */
export function groupsOf(runs, goal) {
  /** @type {Map<string, Group>} */
  const groups = new Map();
  runs.forEach((run, i) => {
    const key = withoutSeed(run.job.spec);
    const group = groups.get(key) || {at: [], times: [], seeds: new Set()};
    group.at.push(i);
    group.times.push(timeTo(run, goal));
    group.seeds.add(run.job.spec?.seed);
    groups.set(key, group);
  });
  return [...groups.values()];
}

/** @param {number[]} times */
const range = (times) => Math.max(...times) - Math.min(...times);

/**
 * The settings whose runs all reached the goal, the fastest first, and how much seeds alone matter.
 * @param {Run[]} runs
 * @param {number} goal
 */
function measuredOf(runs, goal) {
  const all = groupsOf(runs, goal);
  const groups =
      all.filter((g) => g.times.every(known)).sort((a, b) => mean(a.times) - mean(b.times));
  const several = groups.filter((g) => g.times.length > 1);
  const [first, second] = groups;
  const widest = Math.max(...several.map((g) => range(g.times)));
  const apart = Boolean(second) && mean(second.times) - mean(first.times) > widest;
  return {groups, several, apart, missed: all.length > groups.length};
}

/**
 * "A, B and C" with the numbers of runs in place of their letters.
 * @param {Group} group
 * @returns {(string | number)[]}
 */
const who = ({at}) =>
    at.flatMap((run, i) => (i === 0 ? [run] : [i === at.length - 1 ? ' and ' : ', ', run]));

/**
 * How runs of one spec differ.
 * @param {Group} group
 */
const apartBy = ({seeds}) =>
    (seeds.size > 1 ? ' differ in their seeds alone: ' : ' have the same settings and seed: ');

/**
 * The sentence for settings with several seeds: which is faster by more than seeds explain. A
 * number stands for a run; null if each ran once.
 * @param {Run[]} runs
 * @param {number} goal
 * @returns {(string | number)[] | null}
 */
export function seedWords(runs, goal) {
  const {groups, several, apart, missed} = measuredOf(runs, goal);
  const [first, ...rest] = groups;
  const end = missed ? '; of other settings not every run does.' : '.';
  if (several.length === 0) {
    return null;
  }
  const level = percent(goal, 0);
  const reach = (/** @type {Group} */ g) => (g.at.length > 1 ? ' reach ' : ' reaches ') + level;
  if (rest.length === 0) {
    const [least, most] = alike(Math.min(...first.times), Math.max(...first.times));
    return [
      ...who(first), apartBy(first) + 'they reach ' + level + ' in ' + least + ' to ' + most + end
    ];
  }
  const quickest = mean(first.times);
  const [time, ...times] =
      spans(quickest, ...rest.map((g) => mean(g.times) - (apart ? quickest : 0)));
  const took = (/** @type {Group} */ g, /** @type {string} */ text) =>
      ' in ' + text + (g.at.length > 1 ? ' on average' : '');
  const later = rest.flatMap((g, i) => apart ? [', ' + times[i] + ' before ', ...who(g)]
                                             : [', ', ...who(g), took(g, times[i])]);
  return [
    ...(apart ? [] : ['No settings are faster beyond what seeds make: ']), ...who(first),
    reach(first) + took(first, time), ...later, end
  ];
}

/**
 * What the seeds say about the lead; nothing, if each spec ran once.
 * @param {Run[]} runs
 * @param {number} goal
 */
export function seedNote(runs, goal) {
  const {groups, several, apart} = measuredOf(runs, goal);
  if (several.length === 0) {
    return runs.length > 1 ? ' One run each: small differences may be chance.' : '';
  }
  const told = several.map((group) => {
    const {at, times} = group;
    const [least, most] = alike(Math.min(...times), Math.max(...times));
    return ' ' + list(at.map(letterOf)) + apartBy(group) + least + ' to ' + most + '.';
  });
  const lead = groups.length > 1
      ? ' The lead of the better settings is ' + (apart ? 'beyond' : 'within') + ' what seeds make.'
      : '';
  return groups.length > 1 ? told.join('') + lead : '';
}
