/* The new job while it is written: its spec and its text, what the service says of it (a dry run,
   soon after every change), and the catalogue and nodes that the form is made of.

   Events: "spec" (the form changed it), "checked" (detail: the answer), "refused" (detail: the
   error). */
import {get, job as path, post} from '../../api.js';

import {getAt, print, setAt} from './json.js';

/** @typedef {import('../../api.js').ApiError} ApiError */

const CHECK_MS = 300;
const MOST_WORKERS = 4;

/**
 * @param {Api.Dataset[]} datasets
 * @param {Api.Node[]} nodes
 * @returns {Api.Spec}
 */
function firstSpec(datasets, nodes) {
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

/* What a program brings with it, so that no spec of one has it. */
const NETWORK = ['model', 'data', 'augment', 'init', 'optimizer', 'evaluate', 'precision'];

/**
 * @param {Api.Spec} spec
 * @param {string[]} keys
 * @returns {Api.Spec}
 */
const without = (spec, keys) =>
    Object.fromEntries(Object.entries(spec).filter(([key]) => !keys.includes(key)));

/* A request that is sent twice makes one job. */
function freshKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((b) => b.toString(16).padStart(2, '0')).join('');
}

export class SubmitModel extends EventTarget {
  constructor() {
    super();
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
    /** @type {Api.Spec} */
    this.spec = {};
    this.text = '';
    this.key = freshKey();
    this.timer = 0;
    this.aborter = new AbortController();
    this.closed = false;
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
    const first = earlier ? earlier.spec : firstSpec(datasets, nodes);
    this.changes = changes.map(([at, value]) => ({at, was: getAt(first, at), value}));
    this.spec = changes.reduce((spec, [at, value]) => setAt(spec, at, value), first);
    this.text = print(this.spec);
  }

  close() {
    this.closed = true;
    this.stopChecking();
  }

  /**
   * The form changed one value.
   * @param {string} pointer
   * @param {unknown} value
   */
  change(pointer, value) {
    this.replace(setAt(this.spec, pointer, value));
  }

  /** @param {Api.Spec} spec */
  replace(spec) {
    this.spec = spec;
    this.text = print(spec);
    this.dispatchEvent(new Event('spec'));
    this.checkSoon();
  }

  /**
   * A program takes the place of the network; null brings back the one that there was.
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

  /**
   * Somebody typed. The spec follows where the text is an object; the check says where it is not.
   * @param {string} text
   */
  type(text) {
    this.text = text;
    try {
      const parsed = JSON.parse(text);
      if (parsed && typeof parsed === 'object' && !Array.isArray(parsed)) {
        this.spec = parsed;
        this.dispatchEvent(new Event('spec'));
      }
    } catch (e) { /* the check says where */
    }
    this.checkSoon();
  }

  checkSoon() {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.check(), CHECK_MS);
  }

  stopChecking() {
    clearTimeout(this.timer);
    this.aborter.abort();
  }

  /**
   * @param {string} type
   * @param {unknown} detail
   */
  tell(type, detail) {
    this.dispatchEvent(new CustomEvent(type, {detail}));
  }

  async check() {
    this.aborter.abort();
    this.aborter = new AbortController();
    try {
      const {signal} = this.aborter;
      this.tell('checked', await post('jobs?dryRun=true', this.text, {signal}));
    } catch (e) {
      if (/** @type {Error} */ (e).name !== 'AbortError' && !this.closed) {
        this.tell('refused', e);
      }
    }
  }

  /**
   * The id of the job that was made.
   * @returns {Promise<string>}
   */
  async send() {
    this.stopChecking();
    try {
      return (await post('jobs', this.text, {headers: {'Idempotency-Key': this.key}})).id;
    } catch (e) {
      this.key = freshKey();
      throw e;
    }
  }

  /* The request as a command line. */
  curl() {
    const quoted = this.text.replace(/'/g, '\'\\\'\'');
    return 'curl -X POST \'' + location.origin +
        '/api/v1/jobs\' -H "Authorization: Bearer $EVENSTEP_TOKEN"' +
        ' -H \'Content-Type: application/json\' -d \'' + quoted + '\'';
  }
}
