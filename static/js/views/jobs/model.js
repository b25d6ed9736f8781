/* The data of the overview: jobs, nodes, and for running jobs their assignments and two short
   curves. Read once, then kept up by the stream. Event "change". */
import {throttle} from '../../elements/dom.js';
import {active, ended, waiting} from '../../elements/states.js';
import {folded} from '../../measures/fold.js';
import {withNew} from '../../measures/measures.js';
import {get, job as path} from '../../service/api.js';
import {listen} from '../../service/events.js';
import {sweepOf} from '../../spec/tags.js';
import {whole} from '../../text/format.js';

/** @typedef {{[name: string]: Api.Series}} Sparks */

const SPARKS_MS = 5000;
const NODES_MS = 500;
const SWEEPS_MS = 1000;
const PAGE = 50;
const PAGE_MOST = 500;
const LINES = 25;       /* a page has at least so many lines; the runs of a sweep are one line */
const READ_MOST = 2000; /* jobs of a state */
/** @type {Api.State[]} */
const OPEN_STATES = ['running', 'launching', 'queued', 'paused'];
/** @type {('progress' | 'metrics' | 'staleness')[]} */
const FIGURES = ['progress', 'metrics', 'staleness'];

/**
 * Paused jobs last, then by priority, then by age.
 * @param {Api.Job} a
 * @param {Api.Job} b
 */
function inQueue(a, b) {
  const paused = Number(a.state === 'paused') - Number(b.state === 'paused');
  return paused || b.priority - a.priority || (a.created < b.created ? -1 : 1);
}

/**
 * The job that ended last comes first.
 * @param {Api.Job} a
 * @param {Api.Job} b
 */
function lastFirst(a, b) {
  return (a.finished || a.created) < (b.finished || b.created) ? 1 : -1;
}

export class JobsModel extends EventTarget {
  constructor() {
    super();
    /** @type {Map<string, Api.Job>} */
    this.jobs = new Map();
    /** @type {Api.Node[]} */
    this.nodes = [];
    /** @type {Map<string, Api.Assignment[]>} */
    this.assignments = new Map();
    /** @type {Map<string, Sparks>} */
    this.sparks = new Map();
    /** Counts readings of each job, so that only the newest answer is taken. */
    /** @type {Map<string, number>} */
    this.turns = new Map();
    /** Sweeps by id. */
    /** @type {Map<string, Api.SweepRow>} */
    this.sweeps = new Map();
    /** Where the next page of jobs begins. */
    /** @type {string | null} */
    this.next = null;
    /** More jobs wait than were read. */
    this.moreWait = false;
    this.query = '';
    this.timer = 0;
    this.closed = false;
    this.unlisten = () => {};
    this.readNodesSoon =
        throttle(() => this.readNodes().then(() => this.emit()).catch(() => {}), NODES_MS);
    this.readSweepsSoon =
        throttle(() => this.readSweeps().then(() => this.emit()).catch(() => {}), SWEEPS_MS);
  }

  emit() {
    this.dispatchEvent(new Event('change'));
  }

  /* ---- reading ------------------------------------------------------------------------------- */

  async load() {
    await Promise.all([this.readJobs(), this.readNodes()]);
  }

  async readJobs() {
    const answer = await get('jobs', {limit: PAGE, q: this.query});
    this.jobs = new Map();
    this.moreWait = false;
    this.add(answer.jobs);
    this.next = answer.next;
    await this.readLines(0);
    await this.readSweeps();
    if (!this.query && this.next) { /* running and waiting jobs are never on a later page */
      for (const state of OPEN_STATES) {
        await this.readAll(state);
      }
    }
  }

  /**
   * The jobs in a state, those that start first at the beginning.
   * @param {Api.State} state
   */
  async readAll(state) {
    let read = 0;
    /** @type {string | null} */
    let cursor = null;
    do {
      /** @type {{jobs: Api.Job[], next: string | null}} */
      const answer = await get('jobs', {state, sort: 'priority', limit: PAGE_MOST, cursor});
      this.add(answer.jobs);
      cursor = answer.next;
      read += answer.jobs.length;
    } while (cursor && read < READ_MOST);
    this.moreWait = this.moreWait || (cursor !== null && waiting(state));
  }

  /** @param {Api.Job[]} jobs */
  add(jobs) {
    jobs.forEach((j) => this.jobs.set(j.id, j));
  }

  /**
   * Reads pages until there are enough lines beyond so many.
   * @param {number} before
   */
  async readLines(before) {
    for (let read = 0; read < READ_MOST && this.next; read += PAGE) {
      if (this.finishedLines().length + this.running().length + this.queue().length >=
          before + LINES) {
        return;
      }
      const answer = await get('jobs', {limit: PAGE, q: this.query, cursor: this.next});
      this.add(answer.jobs);
      this.next = answer.next;
    }
  }

  async readMore() {
    await this.readLines(this.finishedLines().length);
    await this.readSweeps();
    this.emit();
  }

  /* Reads the sweeps whose runs are one line. */
  async readSweeps() {
    if (this.finishedLines().some((line) => line.jobs.length > 1)) {
      /** @type {{sweeps: Api.SweepRow[]}} */
      const {sweeps} = await get('sweeps', {limit: PAGE_MOST});
      this.sweeps = new Map(sweeps.map((sweep) => [sweep.id, sweep]));
    }
  }

  async readNodes() {
    this.nodes = (await get('nodes')).nodes;
  }

  /** @param {string} id */
  async readJob(id) {
    const turn = (this.turns.get(id) || 0) + 1;
    this.turns.set(id, turn);
    try {
      const job = await get(path(id));
      if (turn === this.turns.get(id)) { /* else a later change is being read */
        this.jobs.set(id, job);
        if (sweepOf(job) && ended(job.state)) {
          this.readSweepsSoon();
        }
      }
    } catch (e) {
      if (/** @type {import('../../service/api.js').ApiError} */ (e).status === 404) {
        this.jobs.delete(id);
      }
    }
    this.emit();
  }

  /** @param {string} query */
  async search(query) {
    this.query = query;
    await this.readJobs().catch(() => {});
    this.emit();
  }

  /* Curves of the running jobs, again every few seconds while the page can be seen. */
  async readSparks() {
    clearTimeout(this.timer);
    if (!document.hidden) {
      for (const job of this.running()) {
        await this.readSparksOf(job.id).catch(() => {}); /* the row goes on without */
      }
      this.emit();
    }
    if (!this.closed) {
      this.timer = window.setTimeout(() => this.readSparks(), SPARKS_MS);
    }
  }

  /** @param {string} id */
  async readSparksOf(id) {
    const params = {names: 'train_loss,test_accuracy', x: 'step', points: 60};
    /** @type {Api.Series[]} */
    const series = (await get(path(id, 'series'), params)).series;
    this.sparks.set(id, Object.fromEntries(series.map((c) => [c.name, c])));
    if (!this.assignments.has(id)) {
      this.assignments.set(id, (await get(path(id, 'assignments'))).assignments);
    }
  }

  /* ---- the stream ---------------------------------------------------------------------------- */

  start() {
    this.unlisten = listen({
      live: ({job, data}) => this.onLive(job, data),
      assignment: ({job, data}) => this.onAssignment(job, data),
      job: ({job, data}) => this.readJob(job || data.id || ''),
      deleted: ({job, data}) => {
        this.jobs.delete(job || data.id || '');
        this.emit();
      },
      node: this.readNodesSoon,
      gap: () => this.load().catch(() => {}).then(() => this.emit())
    });
    this.readSparks();
  }

  /**
   * @param {string} id
   * @param {Api.EventData['live']} data
   */
  onLive(id, data) {
    /** @type {any} */
    const job = this.jobs.get(id);
    if (job) {
      for (const key of FIGURES) {
        job[key] = {...job[key], ...data[key]};
      }
      job.workers = data.workers || job.workers;
      job.servers = data.servers || job.servers;
      this.emit();
    }
  }

  /**
   * @param {string} id
   * @param {Api.Assignment} data
   */
  onAssignment(id, data) {
    const before = this.assignments.get(id);
    if (before) {
      this.assignments.set(id, withNew(before, data));
    }
  }

  close() {
    this.closed = true;
    this.unlisten();
    clearTimeout(this.timer);
  }

  /* ---- what follows -------------------------------------------------------------------------- */

  running() {
    return [...this.jobs.values()].filter((j) => active(j.state));
  }

  queue() {
    return [...this.jobs.values()].filter((j) => waiting(j.state)).sort(inQueue);
  }

  /** How many of those, as people write it; '' for none. */
  waits() {
    const n = this.queue().length;
    return n > 0 ? (this.moreWait ? 'more than ' : '') + whole(n) : '';
  }

  finished() {
    return [...this.jobs.values()].filter((j) => ended(j.state)).sort(lastFirst);
  }

  /* The finished jobs as lines. A search finds runs, not their sweep. */
  finishedLines() {
    const sharedOf = (/** @type {Api.Job} */ job) => (!this.query && sweepOf(job)) || job.id;
    return folded(this.finished(), sharedOf, (sweep) => 'sweep ' + sweep);
  }

  /** @param {Api.NodeState} state */
  count(state) {
    return this.nodes.filter((n) => n.state === state).length;
  }
}
