/* The lines of the list of jobs that have ended: a job each, but one for the runs of a sweep, where
   its newest stands. Pure. */
import {sweepOf} from '../../tags.js';

/**
 * One line: a job, or the jobs of a sweep that were read, the newest first; `member`: it is shown
 * beneath its sweep.
 * @typedef {{key: string, jobs: Api.Job[], sweep: string, member: boolean}} Line
 */

/**
 * @param {Api.Job[]} jobs in their order
 * @returns {Line[]}
 */
export function linesOf(jobs) {
  /** @type {Map<string, Line>} */
  const lines = new Map();
  for (const job of jobs) {
    const sweep = sweepOf(job);
    const line = lines.get(sweep);
    if (sweep && line) {
      line.jobs.push(job);
    } else {
      lines.set(sweep || job.id, lineOf(job, sweep));
    }
  }
  return [...lines.values()].map(
      (line) =>
          (line.jobs.length > 1 ? {...line, key: 'sweep ' + line.sweep} : lineOf(line.jobs[0])));
}

/**
 * @param {Api.Job} job
 * @param {string} [sweep]
 * @param {boolean} [member]
 * @returns {Line}
 */
export function lineOf(job, sweep = '', member = false) {
  return {key: job.id, jobs: [job], sweep, member};
}

/**
 * The lines with the jobs of those sweeps that are open.
 * @param {Line[]} lines
 * @param {Set<string>} open keys of lines
 * @returns {Line[]}
 */
export function unfolded(lines, open) {
  return lines.flatMap(
      (line) => (open.has(line.key)
              ? [line, ...line.jobs.map((job) => ({...lineOf(job, '', true), key: 'of ' + job.id}))]
              : [line]));
}
