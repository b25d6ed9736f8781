/* Assignments of minibatches, each with the step where it came into force. Pure. */
import {ended} from '../../../elements/states.js';

/** @typedef {import('./curves.js').Curves} Curves */
/**
 * `restart`: it is the first one of a further attempt.
 * @typedef {Api.Assignment & {restart: boolean, at: number}} Placed
 */

/**
 * Whether an assignment gave anybody a minibatch: before a program has told its batch there is
 * none, and what follows is not a further attempt.
 * @param {Api.Assignment} a
 */
export const given = (a) => Object.values(a.batches || {}).some((size) => size > 0);

/**
 * A run's assignments, without those that came so late that no step was made with them.
 * @param {Api.Assignment[]} assignments
 * @param {Curves} curves
 */
export function inForce(assignments, curves) {
  for (let n = assignments.length; n > 0; n--) {
    const sizes = Object.entries(assignments[n - 1].batches || {});
    if (sizes.every(([node, size]) => curves.endsAt('batch', node, size))) {
      return assignments.slice(0, n);
    }
  }
  return assignments; /* a smaller last step, say */
}

/* Between an attempt's first minibatches and the line that tells from where it went on. */
const NEAR_MS = 120000;

/**
 * The step from which an attempt went on that began then, by the clock; NaN where no log tells it.
 * @param {Curves} curves
 * @param {number} began
 */
function resumedFrom({resumed}, began) {
  const away = (/** @type {{at: number}} */ r) => Math.abs(r.at - began);
  const [near] = resumed.filter((r) => away(r) < NEAR_MS).sort((a, b) => away(a) - away(b));
  return near ? near.step : NaN;
}

/**
 * A further attempt begins with an assignment of step 0. The log says where it went on. Until the
 * log is read, the place follows from the clock, which goes on in a pause while the job's time does
 * not; but it is never after the attempt's own next change.
 * @param {Api.Job} job
 * @param {Api.Assignment[]} assignments
 * @param {Curves} curves
 * @returns {Placed[]}
 */
export function placedOf(job, assignments, curves) {
  const began = job.started ? Date.parse(job.started) : NaN;
  let at = 0;
  const made = ended(job.state) ? inForce(assignments, curves) : assignments;
  return made.map((a, i) => {
    const restart = i > 0 && a.step === 0;
    const time = Date.parse(a.time);
    const told = resumedFrom(curves, time);
    const guess = Math.min(curves.stepAtTime((time - began) / 1000), made[i + 1]?.step || Infinity);
    const resumed = Number.isNaN(told) ? guess : told;
    const step = restart ? resumed : a.step;
    const here = Number.isNaN(step) ? at : step;
    at = Math.max(at, here);
    return {...a, restart, at: here};
  });
}
