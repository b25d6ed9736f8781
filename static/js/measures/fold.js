/* Jobs as lines of a list. Jobs that share something have one line, which can be opened. Pure. */

/**
 * One line: a job, or several folded ones. A `member` is shown beneath its group and has its own
 * key.
 * @typedef {{key: string, jobs: Api.Job[], member: boolean}} Line
 */

/**
 * A line for each job. Jobs that share something have one line, in the place of the first.
 * @param {Api.Job[]} jobs in their order
 * @param {(job: Api.Job) => string} sharedOf what the jobs of a line share
 * @param {(shared: string, group: Api.Job[]) => string} keyOf the key of a line of several
 * @returns {Line[]}
 */
export function folded(jobs, sharedOf, keyOf) {
  /** @type {Map<string, Api.Job[]>} */
  const groups = new Map();
  for (const job of jobs) {
    const shared = sharedOf(job);
    const group = groups.get(shared);
    if (group) {
      group.push(job);
    } else {
      groups.set(shared, [job]);
    }
  }
  return [...groups].map(([
    shared, group
  ]) => ({key: group.length > 1 ? keyOf(shared, group) : group[0].id, jobs: group, member: false}));
}

/**
 * The lines with the members of those groups that are open.
 * @template {Line} L
 * @param {L[]} lines
 * @param {Set<string>} open keys of groups
 * @returns {(L | Line)[]}
 */
export function unfolded(lines, open) {
  return lines.flatMap(
      (line) => (open.has(line.key)
              ? [line, ...line.jobs.map((job) => ({key: job.id, jobs: [job], member: true}))]
              : [line]));
}
