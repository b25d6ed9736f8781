/* The data of the table of runs: the jobs of the list, page by page, kept up to date by the
   stream, and the loss curves of the lines on the screen. Event "change". */
import {throttle} from '../../elements/dom.js';
import {active} from '../../elements/states.js';
import {get, job as path} from '../../service/api.js';
import {listen} from '../../service/events.js';

import {servedOrder} from './choice.js';

/** @typedef {import('./choice.js').Choice} Choice */

const PAGE = 200;
/* So many are read by themselves; then people ask for more. */
const ENOUGH = 1000;
const CURVE_POINTS = 40;
const CURVES_AT_ONCE = 4;
const CURVES_MS = 5000;
/** The keys that are read of a job: all but its workers and servers. */
const FIELDS = [
  'name', 'owner', 'tags', 'note', 'state', 'attempt', 'priority', 'restarts', 'spec', 'created',
  'started', 'finished', 'error', 'waiting', 'pruned', 'progress', 'metrics', 'staleness',
  'staleness_recent', 'seconds', 'virtual_seconds', 'logged'
].join();
/** @type {('progress' | 'metrics' | 'staleness' | 'staleness_recent' | 'logged')[]} */
const LIVE = ['progress', 'metrics', 'staleness', 'staleness_recent', 'logged'];

export class RunsModel extends EventTarget {
  /** @param {Choice} choice */
  constructor(choice) {
    super();
    this.choice = choice;
    /** @type {Map<string, Api.Job>} */
    this.jobs = new Map();
    /** Where the next page begins; null: all were read. */
    /** @type {string | null} */
    this.next = null;
    /** Whether the jobs that were read are the first ones in the order that was chosen. */
    this.ordered = false;
    /** @type {Map<string, Api.Series | null>} */
    this.curves = new Map();
    /** Ids of the jobs that are on the screen. */
    /** @type {Set<string>} */
    this.seen = new Set();
    /** @type {string | undefined} */
    this.order = undefined;
    /** Counts readings of the list, so that an older one that comes late is dropped. */
    this.turn = 0;
    this.closed = false;
    this.reading = false;
    this.timer = 0;
    this.unlisten = () => {};
    this.readSoon = throttle(() => this.readCurves(), 200);
  }

  emit() {
    this.dispatchEvent(new Event('change'));
  }

  /* Loads the first page; the next pages follow by themselves. */
  async load() {
    const turn = ++this.turn;
    this.order = servedOrder(this.choice.sort);
    const first = await this.readPage(null).catch((e) => this.readUnordered(e));
    if (turn === this.turn && !this.closed) {
      this.ordered = this.order !== undefined;
      this.jobs = new Map(first.jobs.map((/** @type {Api.Job} */ j) => [j.id, j]));
      this.next = first.next;
      this.emit();
      this.readOn(turn, ENOUGH);
    }
  }

  /** @param {string | null} cursor */
  readPage(cursor) {
    const {q, state} = this.choice;
    return get('jobs', {limit: PAGE, fields: FIELDS, q, state, cursor, sort: this.order});
  }

  /**
   * Reads without an order if the service does not know it, as for a setting that no spec has.
   * @param {any} error
   */
  readUnordered(error) {
    if (error.status !== 422 || this.order === undefined) {
      throw error;
    }
    this.order = undefined;
    return this.readPage(null);
  }

  /* An order among some of the runs would hide the first ones of all. */
  sortAnew() {
    return this.next ? this.load() : Promise.resolve();
  }

  /**
   * @param {number} turn
   * @param {number} enough jobs in all
   */
  async readOn(turn, enough) {
    while (this.next && this.jobs.size < enough && !this.closed) {
      const page = await this.readPage(this.next);
      if (turn !== this.turn) {
        return;
      }
      page.jobs.forEach((/** @type {Api.Job} */ j) => this.jobs.set(j.id, j));
      this.next = page.next;
      this.emit();
    }
  }

  readMore() {
    return this.readOn(this.turn, this.jobs.size + ENOUGH);
  }

  /**
   * Whether the list as it was asked for has a job.
   * @param {Api.Job} job
   */
  wants({id, name, state}) {
    const {q, state: states} = this.choice;
    return (!states || states.split(',').includes(state)) &&
        (name.toLowerCase().includes(q.toLowerCase()) || id.startsWith(q));
  }

  /** @param {string} id */
  async readJob(id) {
    const job = await get(path(id)).catch((e) => (e.status === 404 ? null : this.jobs.get(id)));
    if (job && this.wants(job)) {
      this.jobs.set(id, job);
    } else {
      this.jobs.delete(id);
    }
    this.curves.delete(id);
    this.emit();
    this.readSoon();
  }

  /* ---- curves -------------------------------------------------------------------------------- */

  /**
   * Tells which jobs are on the screen.
   * @param {Set<string>} seen
   */
  look(seen) {
    this.seen = seen;
    this.readSoon();
  }

  /* Jobs on the screen whose curves were not read yet. */
  missing() {
    return [...this.seen].filter((id) => !this.curves.has(id) && this.jobs.has(id));
  }

  /* The curves that are missing, a few at a time. */
  async readCurves() {
    if (this.reading || this.closed) {
      return;
    }
    this.reading = true;
    for (let ids = this.missing(); ids.length && !this.closed; ids = this.missing()) {
      await Promise.all(ids.slice(0, CURVES_AT_ONCE).map((id) => this.readCurve(id)));
      this.emit();
    }
    this.reading = false;
  }

  /** @param {string} id */
  async readCurve(id) {
    const params = {names: 'train_loss', x: 'step', points: CURVE_POINTS};
    const answer = await get(path(id, 'series'), params).catch(() => null);
    /** @type {Api.Series[]} */
    const curves = answer?.series || [];
    this.curves.set(id, curves.find((c) => c.node === null) || null);
  }

  /* Curves of runs that go on are read again. */
  renewCurves() {
    if (!document.hidden) {
      for (const id of this.seen) {
        const job = this.jobs.get(id);
        if (job && active(job.state)) {
          this.curves.delete(id);
        }
      }
      this.readSoon();
    }
  }

  /* ---- the stream ---------------------------------------------------------------------------- */

  start() {
    const read = (/** @type {string | undefined} */ id) => id && this.readJob(id);
    this.unlisten = listen({
      live: ({job, data}) => this.onLive(job, data),
      job: ({job, data}) => read(job || data.id),
      deleted: ({job, data}) => {
        this.jobs.delete(job || data.id || '');
        this.emit();
      },
      gap: () => this.load().catch(() => {})
    });
    this.timer = window.setInterval(() => this.renewCurves(), CURVES_MS);
  }

  /**
   * @param {string} id
   * @param {any} data
   */
  onLive(id, data) {
    /** @type {any} */
    const job = this.jobs.get(id);
    if (job) {
      const parts = LIVE.map((part) => [part, {...job[part], ...data[part]}]);
      this.jobs.set(id, {...job, ...Object.fromEntries(parts)});
      this.emit();
    }
  }

  close() {
    this.closed = true;
    clearInterval(this.timer);
    this.readSoon.cancel();
    this.unlisten();
  }
}
