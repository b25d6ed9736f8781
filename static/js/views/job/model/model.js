/* Everything a job's page knows of its job: read once, then kept up by the stream. Its curves are
   in curves.js. Event "change": what has changed, as a word ('live', 'rows', 'series', 'job',
   'all', …). */
import {active} from '../../../elements/states.js';
import {readEvaluations, withNew} from '../../../measures/measures.js';
import {wordsOf} from '../../../sentences/program.js';
import {get, job as path} from '../../../service/api.js';
import {listen} from '../../../service/events.js';
import {serviceNow} from '../../../service/servicetime.js';
import {Crashes} from '../happened/crashes.js';

import {Curves} from './curves.js';
import {learnedOf} from './learned.js';
import {LoggedMetrics} from './logged.js';
import {given, placedOf} from './placed.js';

/* What the stream sends of a job several times a second: in parts, and as a whole. */
/** @type {('progress' | 'metrics' | 'staleness' | 'staleness_recent' | 'assignment')[]} */
const FIGURES = ['progress', 'metrics', 'staleness', 'staleness_recent', 'assignment'];
/** @type {('workers' | 'servers' | 'seconds' | 'rows_dropped' | 'logged')[]} */
const WHOLE = ['workers', 'servers', 'seconds', 'rows_dropped', 'logged'];
const REFRESH_MS = 4000;
const STEPS = 60;

/**
 * An attempt that was lost: when (of the clock), and where on the axis.
 * @typedef {{at: number, step: number, time?: number, node?: string, text?: string}} Loss
 */
export class JobModel extends EventTarget {
  /**
   * @param {string} id
   * @param {number} points that a curve has at most
   */
  constructor(id, points) {
    super();
    this.id = id;
    this.curves = new Curves(id, points);
    this.logged = new LoggedMetrics(id, points);
    /** @type {Api.Job} */
    this.job = /** @type {Api.Job} */ ({});
    /** @type {Api.Assignment[]} */
    this.assignments = [];
    /** @type {Api.Evaluation[]} */
    this.evaluations = [];
    /** @type {Api.Checkpoint[]} */
    this.checkpoints = [];
    /** @type {Loss[]} */
    this.lost = [];
    /** Workers that died while the attempt went on, or came back, as the stream told. */
    /** @type {Array<{step: number, text: string, back: boolean}>} */
    this.left = [];
    this.crashes = new Crashes(() => this.emit('marks'));
    /** @type {Api.NodeStaleness[]} */
    this.staleness = [];
    /** @type {Api.CatalogEntry[]} */
    this.strategies = [];
    /** @type {Page.Learned} what the curves tell of the run's course, for the verdict */
    this.learned = {};
    /** When the stream last told of the job (performance.now()); 0: never. */
    this.receivedAt = 0;
    this.deleted = false;
    this.closed = false;
    /** Whether rows have come since the series were read. */
    this.fresh = false;
    /** Counts readings of the job, so that only the newest answer is taken. */
    this.turn = 0;
    /** @type {Promise<void> | null} */
    this.refreshing = null;
    this.again = false;
    this.timer = 0;
    this.unlisten = () => {};
  }

  /* ---- reading ------------------------------------------------------------------------------- */

  async load() {
    this.job = await get(path(this.id));
    [this.assignments, this.evaluations, this.staleness, this.strategies] = await Promise.all([
      this.list('assignments', 'assignments'), this.list('evaluations', 'evaluations'),
      this.list('staleness', 'nodes'), get('catalog').then((c) => c.strategy || []).catch(() => [])
    ]);
    this.assignments = this.assignments.filter(given);
    this.evaluations = readEvaluations(this.evaluations);
    this.curves.learn(this.job);
    await this.refresh();
    this.crashes.read(this.job);
  }
  /**
   * A list that belongs to the job; empty where it cannot be read.
   * @param {string} part
   * @param {string} key
   * @param {{[name: string]: unknown}} [params]
   */
  async list(part, key, params) {
    try {
      return (await get(path(this.id, part), params))[key] || [];
    } catch (e) {
      if (/** @type {import('../../../service/api.js').ApiError} */ (e).status === 401) {
        throw e;
      }
      return [];
    }
  }

  /**
   * Reads the series; once more where this is asked for meanwhile.
   * @returns {Promise<void>}
   */
  async refresh() {
    if (this.refreshing) {
      this.again = true;
      return this.refreshing;
    }
    this.refreshing = this.readSeries().finally(() => {
      this.refreshing = null;
    });
    await this.refreshing;
    if (this.again && !this.closed) {
      this.again = false;
      return this.refresh();
    }
    return undefined;
  }

  async readSeries() {
    this.fresh = false;
    const steps = this.list('steps', 'nodes', {last: STEPS});
    await Promise.all([steps, this.curves.read(), this.logged.read(this.job, this.curves)]);
    if (!this.closed) {
      this.learned = learnedOf(this, await steps);
      this.emit('series');
    }
  }

  /**
   * @param {Page.Axis} axis
   * @param {Page.Range | null} zoom
   */
  async setAxis(axis, zoom) {
    this.curves.axis = axis;
    this.curves.zoom = zoom;
    await this.refresh();
    this.emit('all');
  }

  /* ---- the stream ---------------------------------------------------------------------------- */

  start() {
    /** @param {(data: any) => unknown} fn */
    const own = (fn) => (/** @type {{job?: string, data: any}} */ event) =>
        event.job === this.id && fn(event.data);
    this.unlisten = listen({
      live: own((d) => this.onLive(d)),
      rows: own((d) => this.onRows(d)),
      job: own((d) => this.onJob(d)),
      staleness: own((d) => this.onStaleness(d)),
      assignment: own((d) => this.onAssignment(d)),
      evaluation: own((d) => this.onEvaluation(d)),
      log: own((d) => this.onLog(d)),
      deleted: own(() => this.onDeleted()),
      gap: () => this.load().then(() => this.emit('all')).catch(() => {})
    });
    this.timer = window.setInterval(() => {
      if (this.fresh && !document.hidden && active(this.job.state)) {
        this.refresh().catch(() => {});
      }
    }, REFRESH_MS);
  }

  close() {
    this.unlisten();
    clearInterval(this.timer);
    this.crashes.close();
    this.closed = true;
  }

  /** @param {string} what */
  emit(what) {
    this.dispatchEvent(new CustomEvent('change', {detail: what}));
  }

  /** @param {Api.EventData['live']} d */
  onLive(d) {
    /** @type {any} */
    const job = this.job;
    for (const key of FIGURES) {
      job[key] = {...job[key], ...d[key]};
    }
    for (const key of WHOLE) {
      job[key] = d[key] ?? job[key];
    }
    this.receivedAt = performance.now();
    this.curves.learn(this.job);
    this.emit('live');
  }

  /** @param {Api.EventData['rows']} d */
  onRows(d) {
    this.fresh = true;
    this.curves.add(/** @type {import('./curves.js').LiveRow[]} */ (d.rows || []));
    this.emit('rows');
  }

  /** @param {Api.EventData['staleness']} d */
  onStaleness(d) {
    this.staleness = d.nodes;
    this.emit('staleness');
  }

  /** @param {Api.Assignment} d */
  onAssignment(d) {
    this.assignments = given(d) ? withNew(this.assignments, d) : this.assignments;
    this.emit('assignments');
  }

  /** @param {Api.Evaluation} d */
  onEvaluation(d) {
    const others = this.evaluations.filter((e) => e.step !== d.step);
    this.learned.tests = [...others, ...readEvaluations([d])].sort((a, b) => a.step - b.step);
    this.evaluations = this.learned.tests;
    this.emit('evaluations');
  }

  /** @param {Api.EventData['log']} d */
  onLog(d) {
    if (d.type === 'checkpoint') {
      this.checkpoints.push({step: d.step, time: d.time});
      this.emit('marks');
    } else if (d.type === 'left' || d.type === 'returned') {
      this.left.push({step: d.step, text: d.message || '', back: d.type === 'returned'});
      this.emit('marks');
    } else if (d.type === 'crashed') {
      this.crashes.read(this.job);
    }
  }

  onDeleted() {
    this.deleted = true;
    this.emit('deleted');
  }

  /** @param {Api.EventData['job']} d */
  async onJob(d) {
    const {job} = this, {error} = d;
    if (d.from === 'running' && d.state === 'queued' && error) { /* else it gave nodes back */
      const at = {at: serviceNow(), step: job.progress?.step || 0, time: job.seconds};
      this.lost.push({...at, node: error.node, text: wordsOf(error)});
    }
    const {state = job.state, attempt = job.attempt, priority = job.priority} = d;
    Object.assign(job, {state, attempt, priority, error: error ?? null});
    this.emit('job');
    try {
      if (await this.readAgain()) {
        await this.refresh();
        this.emit('job');
      }
    } catch (e) { /* the stream tells more, or the banner does */
    }
  }

  /* Reads the job; false where a later change is being read. Where the answer may be older than
     what the stream has told since, figures stay as they are. */
  async readAgain() {
    const turn = ++this.turn;
    const before = this.job;
    const asked = performance.now();
    /** @type {Api.Job} */
    const read = await get(path(this.id));
    if (turn !== this.turn) {
      return false;
    }
    if (active(read.state) && this.receivedAt > asked) {
      for (const key of [...FIGURES, ...WHOLE]) {
        /** @type {any} */ (read)[key] = before[key] ?? read[key];
      }
    }
    this.job = read;
    this.curves.learn(read);
    if (!(read.workers || []).length) {
      read.workers = before.workers;
    }
    return true;
  }

  /* ---- what follows -------------------------------------------------------------------------- */

  nodes() {
    const names = (this.job.workers || []).map((w) => w.node);
    return names.length ? names : this.staleness.map((n) => n.node);
  }

  placed() {
    return placedOf(this.job, this.assignments, this.curves);
  }

  /**
   * Results of the evaluations as a curve.
   * @param {'loss' | 'accuracy'} field
   * @returns {Page.Points}
   */
  tests(field) {
    const good = this.evaluations.filter((e) => Number.isFinite(e[field]));
    const {axis} = this.curves;
    return {x: good.map((e) => e[axis]), y: good.map((e) => e[field])};
  }

  /* The newest x of the axis. */
  extent() {
    return Math.max(this.curves.newest(), ...this.evaluations.map((e) => e[this.curves.axis]), 0);
  }

  /**
   * Ages go on growing between two messages.
   * @param {number | null | undefined} reported
   */
  ageOf(reported) {
    const since = this.receivedAt ? (performance.now() - this.receivedAt) / 1000 : 0;
    return typeof reported === 'number' ? reported + since : NaN;
  }
}
