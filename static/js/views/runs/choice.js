/* The choices on the table of runs, and their form in the address, so that a link shows another
 * person the same table. A default stays out of the address. Pure. */
import {columnOf, FIRST, LOGGED} from './columns.js';
import {parseCondition, printCondition} from './conditions.js';

/** @typedef {import('./conditions.js').Condition} Condition */
/**
 * `sort`: a column's name, after '-' downwards; `picked`: ids of jobs; `fold`: runs that differ in
 * their seeds alone stand in one line, or those of a sweep, or of a project; '': none do.
 * @typedef {'' | 'seeds' | 'sweeps' | 'projects'} Fold
 * @typedef {{columns: string[], sort: string, q: string, state: string, where: Condition[],
 *            picked: string[], fold: Fold}} Choice
 */

export const SORT = '-job/created';
/** @type {Fold[]} */
const FOLDS = ['seeds', 'sweeps', 'projects'];

/** @param {string | null} text */
const words = (text) => (text || '').split(',').filter(Boolean);

/**
 * @param {URLSearchParams} params
 * @returns {Choice}
 */
export function parseChoice(params) {
  return {
    columns: params.has('cols') ? words(params.get('cols')) : FIRST,
    sort: params.get('sort') || SORT,
    q: params.get('q') || '',
    state: params.get('state') || '',
    where: params.getAll('where').flatMap((text) => parseCondition(text) || []),
    picked: words(params.get('runs')),
    fold: FOLDS.find((fold) => fold === params.get('fold')) || ''
  };
}

/**
 * The address of a choice.
 * @param {Choice} choice
 */
export function addressOf({columns, sort, q, state, where, picked, fold}) {
  const all = new URLSearchParams();
  const put = (/** @type {string} */ key, /** @type {string | false} */ value) =>
      value && all.append(key, value);
  put('q', q);
  put('state', state);
  where.forEach((c) => put('where', printCondition(c)));
  put('cols', columns.join() !== FIRST.join() && columns.join());
  put('sort', sort !== SORT && sort);
  put('fold', fold);
  put('runs', picked.join());
  const text = all.toString();
  return '#/runs' + (text ? '?' + text.replace(/%2F/g, '/').replace(/%2C/g, ',') : '');
}

/* Columns whose values the service has under another name. */
/** @type {{[id: string]: string}} */
const SERVED_AS = {
  'job/loss': 'metrics.train_loss',
  'job/trained': 'seconds',
  'job/created': 'created',
  'job/started': 'started',
  'job/finished': 'finished',
  'job/restarts': 'restarts',
  'job/owner': 'owner',
  name: 'name'
};

/**
 * The order in the service's words, for a list too long to be read; undefined: the service has none
 * for this column, and the newest runs come first.
 * @param {string} sort
 */
export function servedOrder(sort) {
  const down = sort.startsWith('-') ? '-' : '';
  const id = sort.slice(down.length);
  const served = id.startsWith(LOGGED) || !(id.startsWith('job/') || /\/\d/.test(id));
  const path = SERVED_AS[id] || (served ? servedPath(id) : '');
  return path ? down + path : undefined;
}

/** @param {string} id */
function servedPath(id) {
  if (id.startsWith(LOGGED)) {
    const name = id.slice(LOGGED.length);
    return /[,!=<>]/.test(name) ? '' : 'logged.' + name;
  }
  return (columnOf(id).kind === 'setting' ? 'spec/' + id : id).replaceAll('/', '.');
}

/**
 * The order after a click on a column's head: first upwards for words, downwards for numbers, then
 * the other way round.
 * @param {string} sort
 * @param {string} id
 * @param {boolean} numeric
 */
export function nextSort(sort, id, numeric) {
  const first = (numeric ? '-' : '') + id;
  return sort === first ? (numeric ? id : '-' + id) : first;
}
