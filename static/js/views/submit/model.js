/* The new job that is being edited (draft/draft.js), and the catalogue and nodes that its form is
   made of. */
import {Draft} from '../../draft/draft.js';
import {getAt, setAt} from '../../draft/json.js';
import {get, job as path} from '../../service/api.js';
import {firstBatch, firstNetwork, firstOptimizer} from '../../spec/network.js';
import {specAgain} from '../../spec/tags.js';

const MOST_WORKERS = 4;

/**
 * @param {Api.Dataset[]} datasets
 * @param {Api.Node[]} nodes
 * @returns {Api.Spec}
 */
export function firstSpec(datasets, nodes) {
  const mnist = datasets.find((d) => d.format === 'idx');
  const usable = nodes.filter((n) => n.state !== 'lost' && n.state !== 'disabled').length;
  return {
    name: 'my-job',
    model: 'lenet5',
    data: mnist ? {format: 'idx', path: mnist.path}
                : {format: 'glyphs', samples: 20000, test_samples: 4000},
    optimizer: {type: 'sgd', learning_rate: 0.05, momentum: 0.9},
    strategy: {type: 'sync'},
    batching: {global_batch: 256, policy: 'dynamic'},
    workers: Math.max(1, Math.min(MOST_WORKERS, usable || 1)),
    epochs: 3,
    seed: 1
  };
}

/* Keys that a program brings itself, so its spec does not have them. */
const NETWORK = ['model', 'data', 'augment', 'init', 'optimizer', 'evaluate', 'precision'];

/**
 * @param {Api.Spec} spec
 * @param {string[]} keys
 * @returns {Api.Spec}
 */
const without = (spec, keys) =>
    Object.fromEntries(Object.entries(spec).filter(([key]) => !keys.includes(key)));

export class SubmitModel extends Draft {
  constructor() {
    super('jobs');
    /** @type {Api.Catalog} */
    this.catalog = {};
    /** @type {Api.Node[]} */
    this.nodes = [];
    /** @type {Api.Dataset[]} */
    this.datasets = [];
    /** @type {Api.Program[]} */
    this.programs = [];
    /** The spec with a network, while a program is chosen. */
    /** @type {Api.Spec | null} */
    this.network = null;
    /** The job that this one begins from. */
    /** @type {Api.Job | null} */
    this.earlier = null;
    /** What the address changed of the earlier job. */
    /** @type {{at: string, was: unknown, value: unknown}[]} */
    this.changes = [];
  }

  /**
   * @param {string | null} from the id of an earlier job
   * @param {[string, unknown][]} changes values to begin with, by JSON pointer
   */
  async load(from, changes) {
    const [catalog, {nodes}, datasets, programs, earlier] = await Promise.all([
      get('catalog'), get('nodes'), get('datasets').then((d) => d.datasets).catch(() => []),
      get('programs').then((d) => d.programs).catch(() => []), from ? get(path(from)) : null
    ]);
    Object.assign(this, {catalog, nodes, datasets, programs, earlier});
    const first = earlier ? specAgain(earlier) : firstSpec(datasets, nodes);
    this.changes = changes.map(([at, value]) => ({at, was: getAt(first, at), value}));
    this.begin(changes.reduce((spec, [at, value]) => setAt(spec, at, value), first));
  }

  /**
   * A data set was uploaded: the job trains on it, a small network to begin with.
   * @param {string} path
   * @returns {Promise<Api.Dataset | undefined>}
   */
  async uploaded(path) {
    const {datasets} = await get('datasets');
    const found = datasets.find((/** @type {Api.Dataset} */ d) => d.path === path);
    if (found) {
      this.datasets.push(found);
      const {augment: ignored, batching, optimizer, ...rest} = this.spec;
      const batch = firstBatch(found, batching?.global_batch);
      this.replace({
        ...rest,
        model: firstNetwork(found),
        data: {format: found.format, path},
        optimizer: firstOptimizer(optimizer, batch, batching?.global_batch),
        batching: {...batching, global_batch: batch}
      });
    }
    return found;
  }

  /**
   * A program replaces the network; null brings the network back.
   * @param {Api.Spec['program'] | null} program
   */
  train(program) {
    const {name, batching, ...rest} = without(this.spec, ['program', ...NETWORK]);
    if (!this.spec.program) {
      this.network = this.spec;
    }
    if (program) {
      const {global_batch: ignored, ...policy} = batching || {};
      this.replace({name, program, ...rest, batching: policy});
    } else {
      this.replace({...(this.network || firstSpec(this.datasets, this.nodes)), name});
    }
  }
}
