/* An elastic job's changes of size: which attempts are such changes, and how many of its possible
   nodes it has. Pure. */
import {plural, seconds} from '../../../text/format.js';

/** @typedef {import('../model/placed.js').Placed} Placed */

const SAME_MS = 60000;

/**
 * The change of size with which this attempt began; undefined: it began for another reason.
 * @param {Api.Job} job
 * @param {Placed} placed its first minibatches
 */
export function resizeOf(job, placed) {
  return (job.resizes || [])
      .find((r) => r.reason === placed.reason &&
              Math.abs(Date.parse(r.time) - Date.parse(placed.time)) < SAME_MS);
}

/**
 * "grew from 3 to 4 nodes: fast-2 joined, 1.60 s without a step"
 * @param {Api.Resize} r
 */
export function resizeText(r) {
  return r.reason + (r.seconds ? ', ' + seconds(r.seconds) + ' without a step' : '');
}

/**
 * "3 of 2 to 4 nodes"; of a job whose size is fixed "4 nodes".
 * @param {Api.Job} job
 */
export function sizeText(job) {
  const bounds = job.spec?.elastic;
  const now = (job.workers || []).filter((w) => w.state !== 'left').length;
  if (!bounds || bounds.min === bounds.max) {
    return plural((job.workers || []).length || job.spec?.workers || 1, 'node');
  }
  return (now ? now + ' of ' : '') + bounds.min + ' to ' + plural(bounds.max, 'node');
}
