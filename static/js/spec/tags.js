/* The tags of a job that mean something to the page: that of its sweep, which the service gives,
   and that of its project, which people give (project:NAME); the others are people's own. Pure. */

const SWEEP = /^sweep:[0-9a-f]{16}$/;
const PROJECT = 'project:';

/**
 * The sweep that a job belongs to; '': none.
 * @param {{tags?: string[]}} job
 */
export function sweepOf({tags}) {
  const tag = tags?.find((t) => SWEEP.test(t));
  return tag ? tag.slice('sweep:'.length) : '';
}

/* What the service adds to a sweep's name: trial, rung, seed. */
const OF_SWEEP = /-\d+(-r\d+)?(-s\d+)?$/;

/**
 * The name of its sweep, from that of a job.
 * @param {{name: string}} job
 */
export const sweepName = ({name}) => name.replace(OF_SWEEP, '');

/**
 * The project that a job belongs to; '': none.
 * @param {{tags?: string[]}} job
 */
export function projectOf({tags}) {
  const tag = tags?.find((t) => t.startsWith(PROJECT));
  return tag ? tag.slice(PROJECT.length) : '';
}

/**
 * The tags that mean nothing to the page.
 * @param {{tags?: string[]}} job
 */
export const ownTags = ({tags = []}) =>
    tags.filter((t) => !SWEEP.test(t) && !t.startsWith(PROJECT));

/**
 * All tags of a job with another project and other tags of its own; that of its sweep stays.
 * @param {{tags?: string[]}} job
 * @param {string} project '': none
 * @param {string[]} own
 */
export const tagsWith = ({tags = []}, project,
    own) => [...tags.filter((t) => SWEEP.test(t)), ...(project ? [PROJECT + project] : []), ...own];

/**
 * The spec of a further run like this one: with the tags that the job has now, and of no sweep.
 * @param {Api.Job} job
 * @returns {Api.Spec}
 */
export function specAgain({spec, tags = []}) {
  const {tags: ignored, ...rest} = spec;
  const kept = tags.filter((t) => !SWEEP.test(t));
  return kept.length ? {...rest, tags: kept} : rest;
}
