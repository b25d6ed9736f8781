/* The tags of a job that the service sets. Pure. */

/**
 * The sweep that a job belongs to, by the tag that the service gave it; "": none.
 * @param {Api.Job} job
 */
export function sweepOf({tags}) {
  const tag = tags?.find((t) => /^sweep:[0-9a-f]{16}$/.test(t));
  return tag ? tag.slice('sweep:'.length) : '';
}
