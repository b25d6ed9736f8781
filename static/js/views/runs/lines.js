/* Makes the lines of the table from jobs: those that meet the conditions, sorted. Runs that differ
   only in their seeds, those of a sweep, or those of a project can be folded into one line. Pure.
 */
import {folded} from '../../measures/fold.js';
import {withoutSeed} from '../../spec/spec.js';
import {projectOf, sweepOf} from '../../spec/tags.js';

import {columnOf} from './columns.js';
import {meets} from './conditions.js';

/** @typedef {import('./choice.js').Choice} Choice */
/** @typedef {import('./columns.js').Value} Value */
/**
 * `sweep`: the id of the sweep that was folded, `project`: the name of the project.
 * @typedef {import('../../measures/fold.js').Line & {sweep?: string, project?: string}} Line
 */

/**
 * @param {Value} a
 * @param {Value} b
 */
function compare(a, b) {
  if (typeof a === 'number' && typeof b === 'number') {
    return a - b;
  }
  return String(a).localeCompare(String(b), 'en', {numeric: true});
}

/**
 * The value of a line in a column: for several jobs the mean of numbers, else the first value.
 * @param {import('./columns.js').Column} column
 * @param {Line} line
 * @returns {Value}
 */
function valueOf(column, {jobs}) {
  const values = jobs.map(column.value).filter((v) => v !== undefined);
  const numbers = values.flatMap((v) => (typeof v === 'number' ? [v] : []));
  return numbers.length && numbers.length === values.length
      ? numbers.reduce((sum, v) => sum + v, 0) / numbers.length
      : values[0];
}

/**
 * Lines in the order of a column; those without a value are last, whichever way.
 * @param {Line[]} lines
 * @param {string} sort
 */
function inOrder(lines, sort) {
  const down = sort.startsWith('-');
  const id = sort.replace(/^-/, '');
  const column = columnOf(id);
  const value = id === 'name' ? (/** @type {Line} */ l) => l.project || l.jobs[0].name
                              : (/** @type {Line} */ l) => valueOf(column, l);
  const told = lines.map((line) => ({line, v: value(line)}));
  told.sort((a, b) => {
    if (a.v === undefined || b.v === undefined) {
      return Number(a.v === undefined) - Number(b.v === undefined);
    }
    return (down ? -1 : 1) * compare(a.v, b.v);
  });
  return told.map(({line}) => line);
}

/**
 * What the runs of one line share.
 * @type {{[fold: string]: (job: Api.Job) => string}}
 */
const SHARED = {
  seeds: (job) => withoutSeed(job.spec),
  sweeps: (job) => sweepOf(job) || job.id,
  projects: (job) => projectOf(job) || job.id,
  '': (job) => job.id
};

/**
 * @param {Api.Job[]} jobs
 * @param {Choice} choice
 * @returns {Line[]} without members of groups
 */
export function linesOf(jobs, {where, sort, fold}) {
  const found = jobs.filter((job) => where.every((condition) => meets(condition, job)));
  /* a row that was drawn for a sweep is none for seeds */
  const keyOf = (/** @type {string} */ _, /** @type {Api.Job[]} */ group) =>
      fold + ' ' + group[0].id;
  const lines = folded(found, SHARED[fold], keyOf).map((line) => ({
    ...line,
    ...(fold === 'sweeps' && {sweep: sweepOf(line.jobs[0])}),
    ...(fold === 'projects' && line.jobs.length > 1 && {project: projectOf(line.jobs[0])})
  }));
  return inOrder(lines, sort);
}
