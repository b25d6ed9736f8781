/* What if a node left or joined, or the global batch changed? This makes the spec for such a
 * prediction: the same job on the virtual nodes of its own prediction, with the change. The service
 * simulates it; nothing is computed here. Pure, tested in tests/browser/test_whatif.py. */

/** @typedef {{like: string, speed: number}} Added  a copy of a node, so many times as fast */
/** @typedef {{without: string[], added: Added[], batch: number}} Change */

/* Keys that a run on other nodes cannot have, or that a prediction does not need. */
const LEFT_OUT =
    ['nodes', 'workers', 'min_workers', 'elastic', 'init', 'target', 'tags', 'note', 'cluster'];

/**
 * The job's spec as it is predicted first, on the very nodes that it runs on.
 * @param {Api.Job} job
 * @returns {Api.Spec}
 */
export function specNow({spec, workers = []}) {
  const {init, elastic, ...rest} = spec;
  return spec.cluster || workers.length === 0
      ? rest
      : {...rest, nodes: workers.map((w) => w.node), workers: workers.length};
}

/**
 * A name for a node that is added: "slow copy", "slow copy 2", …
 * @param {string} like
 * @param {string[]} taken
 */
function nameOf(like, taken) {
  const first = like + '-copy';
  for (let i = 2, name = first;; i++) {
    if (!taken.includes(name)) {
      return name;
    }
    name = first + '-' + i;
  }
}

/**
 * The nodes after the change.
 * @param {Api.VirtualNode[]} nodes
 * @param {Change} change
 */
export function nodesWith(nodes, {without, added}) {
  const stay = nodes.filter((n) => !without.includes(n.name));
  for (const {like, speed} of added) {
    const model = nodes.find((n) => n.name === like);
    if (model) {
      stay.push({
        ...model,
        name: nameOf(like, [...nodes, ...stay].map((n) => n.name)),
        fixed_seconds: (model.fixed_seconds ?? 0) / speed,
        seconds_per_sample: model.seconds_per_sample / speed
      });
    }
  }
  return stay;
}

/**
 * Groups of nodes hold those that stay; a copy joins the group of its model.
 * @param {string[][]} groups
 * @param {Api.VirtualNode[]} nodes
 */
function groupsWith(groups, nodes) {
  const names = nodes.map((n) => n.name);
  const models = (/** @type {string} */ name) => name.replace(/-copy(-\d+)?$/, '');
  return groups.map((g) => names.filter((n) => g.includes(n) || g.includes(models(n))))
      .filter((g) => g.length > 0);
}

/**
 * @param {Api.Spec} spec
 * @param {Api.Cluster} cluster of its prediction
 * @param {Change} change
 * @returns {Api.Spec}
 */
export function specWith(spec, cluster, change) {
  const kept = Object.fromEntries(Object.entries(spec).filter(([k]) => !LEFT_OUT.includes(k)));
  const {sizes, weights, ...batching} = spec.batching || {};
  const nodes = nodesWith(cluster.nodes, change);
  const groups = cluster.groups && {groups: groupsWith(cluster.groups, nodes)};
  const policy = batching.policy === 'static' ? 'dynamic' : batching.policy;
  return /** @type {Api.Spec} */ ({
    ...kept,
    batching: {...batching, ...(policy && {policy}), global_batch: change.batch},
    cluster: {...cluster, nodes, ...groups}
  });
}

/**
 * The changes of a new job for this; null if it needs nodes that do not exist.
 * @param {Api.Job} job
 * @param {Change} change
 * @returns {{[pointer: string]: unknown} | null}
 */
export function cloneChanges({spec, workers = []}, {without, added, batch}) {
  if (added.length > 0 || spec.cluster) {
    return null;
  }
  const nodes = workers.map((w) => w.node).filter((n) => !without.includes(n));
  return {
    ...(without.length > 0 && {'/nodes': nodes, '/workers': nodes.length}),
    ...(batch !== spec.batching?.global_batch && {'/batching/global_batch': batch})
  };
}
