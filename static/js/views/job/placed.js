/* Assignments of minibatches, each with the step where it came into force. Pure. */

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
 * A further attempt begins again with an assignment of step 0, so its place follows from the clock.
 * @param {Api.Job} job
 * @param {Api.Assignment[]} assignments
 * @param {Curves} curves
 * @returns {Placed[]}
 */
export function placedOf(job, assignments, curves) {
  const began = job.started ? Date.parse(job.started) : NaN;
  let at = 0;
  return assignments.map((a, i) => {
    const restart = i > 0 && a.step === 0;
    const step = restart ? curves.stepAtTime((Date.parse(a.time) - began) / 1000) : a.step;
    const here = Number.isNaN(step) ? at : step;
    at = Math.max(at, here);
    return {...a, restart, at: here};
  });
}
