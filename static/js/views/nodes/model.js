/* The data of the page of nodes: nodes, hosts that may not join, the running jobs, and the newest
   of all jobs, for the history of a node. Nodes are read every few seconds and when the stream
   reports a change; the newest jobs once, and when a job changes its state. Event "change". */
import {throttle} from '../../elements/dom.js';
import {active} from '../../elements/states.js';
import {isVirtual} from '../../measures/measures.js';
import {get, post, remove} from '../../service/api.js';
import {listen} from '../../service/events.js';

const POLL_MS = 2000;
const SOON_MS = 500;
const NEWEST = 50;

/* The filters: their names, and which nodes they show. */
/** @type {{[id: string]: [string, (n: Api.Node) => boolean]}} */
export const FILTERS = {
  all: ['All', () => true],
  busy: ['Busy', (n) => n.state === 'busy'],
  ready: ['Free', (n) => n.state === 'ready'],
  drained: ['Drained', (n) => n.state === 'draining' || n.state === 'disabled'],
  lost: ['Lost', (n) => n.state === 'lost']
};

export class NodesModel extends EventTarget {
  constructor() {
    super();
    /** @type {Api.Node[]} */
    this.nodes = [];
    /** @type {Api.Refusal[]} */
    this.refused = [];
    /** @type {Map<string, Api.Job>} */
    this.jobs = new Map();
    /** The newest jobs, whatever their state. */
    /** @type {Api.Job[]} */
    this.newest = [];
    this.timer = 0;
    this.unlisten = () => {};
    this.readSoon = throttle(() => this.read().catch(() => {}), SOON_MS);
  }

  emit() {
    this.dispatchEvent(new Event('change'));
  }

  async read() {
    const [{nodes, refused}, {jobs}] =
        await Promise.all([get('nodes'), get('jobs', {state: 'running', limit: 100})]);
    this.nodes = nodes;
    this.refused = refused;
    this.jobs = new Map(jobs.map((/** @type {Api.Job} */ j) => [j.id, j]));
    this.emit();
  }

  async readNewest() {
    this.newest = (await get('jobs', {limit: NEWEST}).catch(() => ({jobs: []}))).jobs;
    this.emit();
  }

  start() {
    this.unlisten = listen({
      node: this.readSoon,
      job: () => {
        this.readSoon();
        this.readNewest();
      },
      gap: this.readSoon,
      live: ({job, data}) => {
        const at = this.jobs.get(job);
        if (at) {
          at.workers = data.workers || at.workers;
          this.emit();
        }
      }
    });
    this.timer = window.setInterval(() => !document.hidden && this.read().catch(() => {}), POLL_MS);
  }

  close() {
    this.unlisten();
    clearInterval(this.timer);
    this.readSoon.cancel();
  }

  /**
   * Drains, disables, enables or forgets a node.
   * @param {string} name
   * @param {string} what
   */
  async act(name, what) {
    const path = 'nodes/' + encodeURIComponent(name);
    await (what === 'forget' ? remove(path) : post(path + '/' + what));
    await this.read();
  }

  /**
   * The job that a node has.
   * @param {Api.Node} node
   */
  jobOf(node) {
    return node.job ? this.jobs.get(node.job) : undefined;
  }

  /**
   * The name of a node's job, or its id where it is not known.
   * @param {Api.Node} node
   */
  jobName(node) {
    return node.job ? this.jobOf(node)?.name || node.job : '';
  }

  /**
   * Jobs that a node had a part in, the newest first.
   * @param {string} name
   */
  historyOf(name) {
    return this.newest.filter((j) => !isVirtual(j) && j.workers?.some((w) => w.node === name));
  }

  /**
   * The job whose steps are shown: one that trains, on the chosen node if there is one; else the
   * last measured one. Virtual nodes never match, whatever their names.
   * @param {string | null} chosen
   */
  measured(chosen) {
    const has = (/** @type {Api.Job} */ j) =>
        (j.workers || []).some((w) => w.compute_seconds > 0 && (!chosen || w.node === chosen));
    const running = [...this.jobs.values()].filter((j) => active(j.state));
    return [...running, ...this.newest.filter((j) => !j.pruned)]
        .filter((j) => !isVirtual(j))
        .find(has);
  }
}
