/* Everything a job's page knows of its job: read once, then kept up by the stream. Curves come from two sources:

     series (the service; every bucket's least, greatest and mean, at most one for two pixels)  ──┐
     rows of the stream (thinned, newer than the series)                                        ──┴─►  curve(name, node)

   Live rows are drawn at once; every few seconds the series are read again and replace them, so that what stays on the
   page is exact and its size does not depend on the job's length. A newcomer would get the axis wrong: rows carry step
   and time, samples follow from the epoch. */
import {get, job as path} from './api.js';
import {listen} from './events.js';
import {active} from './states.js';

const JOB_WIDE = ['train_loss', 'train_accuracy', 'samples_per_second'];
const PER_NODE = ['staleness', 'batch', 'compute_seconds', 'exchange_seconds', 'wait_seconds', 'strategy_value'];
/* What the stream tells of a job anew, several times a second: in parts, and as a whole. */
const FIGURES = ['progress', 'metrics', 'staleness', 'staleness_recent', 'assignment'];
const WHOLE = ['workers', 'servers', 'seconds', 'rows_dropped'];
const REFRESH_MS = 4000;
const TAIL_MOST = 4000;

export class JobData extends EventTarget {
  constructor(id, points) {
    super();
    Object.assign(this, {
      id,
      points,
      axis: 'step',
      zoom: null,
      assignments: [],
      evaluations: [],
      checkpoints: [],
      lost: [],
      staleness: {nodes: []},
      series: new Map(),
      tail: new Map(),
      lastRows: new Map(),
      fresh: false,
      receivedAt: 0,
      turn: 0 /* of reading the job anew */
    });
    this.scale = {step: [], time: [], samples: []};
  }

  async load() {
    const part = (name, key) => get(path(this.id, name)).then((j) => j[key] || []).catch((e) => {
      if (e.status === 401) {
        throw e;
      }
      return [];
    });
    this.job = await get(path(this.id));
    [this.assignments, this.evaluations, this.staleness] = await Promise.all([
      part('assignments', 'assignments'), part('evaluations', 'evaluations'),
      part('staleness', 'nodes').then((nodes) => ({nodes}))
    ]);
    this.remember();
    await this.refresh();
  }

  start() {
    const own = (fn) => (event) => event.job === this.id && fn(event.data);
    this.unlisten = listen({
      live: own((d) => this.onLive(d)),
      rows: own((d) => this.onRows(d)),
      job: own((d) => this.onJob(d)),
      staleness:
          own((d) => this.change(
                  'staleness',
                  () => {
                    this.staleness = d;
                  })),
      assignment: own((d) => this.change('assignments', () => this.assignments.push(d))),
      evaluation:
          own((d) => this.change(
                  'evaluations',
                  () => {
                    this.evaluations = this.evaluations.filter((e) => e.step !== d.step);
                    this.evaluations.push(d);
                    this.evaluations.sort((a, b) => a.step - b.step);
                  })),
      log:
          own((d) => d.type === 'checkpoint' &&
                  this.change('marks', () => this.checkpoints.push({step: d.step, time: d.time}))),
      deleted:
          own(() => this.change(
                  'deleted',
                  () => {
                    this.deleted = true;
                  })),
      gap: () => this.load().then(() => this.emit('all')).catch(() => {}),
    });
    this.timer = setInterval(() => {
      if (this.fresh && !document.hidden && this.job && active(this.job.state)) {
        this.refresh().catch(() => {});
      }
    }, REFRESH_MS);
  }

  close() {
    this.unlisten?.();
    clearInterval(this.timer);
    this.closed = true;
  }

  emit(what) {
    this.dispatchEvent(new CustomEvent('change', {detail: what}));
  }

  change(what, fn) {
    fn();
    this.emit(what);
  }

  /* ---- events ---------------------------------------------------------------------------------------------- */

  onLive(d) {
    if (!this.job) {
      return;
    }
    for (const key of FIGURES) {
      this.job[key] = {...this.job[key], ...d[key]};
    }
    for (const key of WHOLE) {
      this.job[key] = d[key] ?? this.job[key];
    }
    this.receivedAt = performance.now();
    this.remember();
    this.emit('live');
  }

  async onJob(d) {
    if (!this.job) {
      return;
    }
    if (d.from === 'running' && d.state === 'queued') {
      this.lost.push({
        at: Date.now(),
        step: this.job.progress?.step || 0,
        time: this.job.seconds,
        node: d.error?.node,
        text: d.error?.message
      });
    }
    Object.assign(this.job, {
      state: d.state || this.job.state,
      attempt: d.attempt ?? this.job.attempt,
      priority: d.priority ?? this.job.priority,
      error: d.error ?? null
    });
    this.emit('job');
    const turn = ++this.turn;
    try {
      const live = this.job;
      const asked = performance.now();
      const read = await get(path(this.id));
      if (turn !== this.turn) { /* a later change is being read: its answer may have come first */
        return;
      }
      if (active(read.state) && this.receivedAt > asked) { /* the answer may be older than what has come since */
        for (const key of [...FIGURES, ...WHOLE]) {
          read[key] = live[key] ?? read[key];
        }
      }
      this.job = read;
      if (!(this.job.workers || []).length) {
        this.job.workers = live.workers;
      }
      await this.refresh();
      this.emit('job');
    } catch (e) { /* the stream tells more, or the banner does */
    }
  }

  onRows(d) {
    this.fresh = true;
    for (const row of d.rows || []) {
      const list = this.tail.get(row.node) || [];
      if (!list.length || row.time >= list[list.length - 1].time) {
        list.push(row);
        if (list.length > TAIL_MOST) {
          list.splice(0, list.length - TAIL_MOST / 2);
        }
      }
      this.tail.set(row.node, list);
    }
    this.emit('rows');
  }

  /* ---- curves ---------------------------------------------------------------------------------------------- */

  async setAxis(axis, zoom) {
    this.axis = axis;
    this.zoom = zoom;
    await this.refresh();
    this.emit('all');
  }

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
    const axis = this.axis;
    const span = this.zoom ? this.zoom[1] - this.zoom[0] : 0;
    const range = this.zoom ? {from: this.zoom[0] - span * 0.02, to: this.zoom[1] + span * 0.02} : {};
    const names = [...JOB_WIDE, ...PER_NODE].join(',');
    const ask = (x, list, r, points) => get(path(this.id, 'series'), {names: list, x, points, ...r});
    const [all, ...maps] = await Promise.all([
      ask(axis, names, range, this.points),
      ...['step', 'time', 'samples'].map(
          (x) => (x === 'samples' && axis !== x ? {series: []} : ask(x, 'train_loss', {}, 400)))
    ]);
    if (axis !== this.axis || this.closed) {
      return;
    }
    this.series = new Map(all.series.map((c) => [c.name + '|' + (c.node || ''), c]));
    const [step, time, samples] = maps.map((m) => m.series[0]?.x || []); /* the same buckets in three units */
    this.scale = {step, time, samples};
    this.prune();
    this.emit('series');
  }

  /* Rows that the series have by now. */
  prune() {
    for (const [node, list] of this.tail) {
      const base = this.series.get('batch|' + node);
      const last = base && base.x.length ? base.x[base.x.length - 1] : -Infinity;
      this.tail.set(node, this.zoom ? [] : list.filter((row) => this.xOf(row) > last));
    }
  }

  remember() {
    const p = this.job.progress || {};
    this.samplesPerEpoch = p.epoch > 0 && p.samples > 0 ? p.samples / p.epoch : this.samplesPerEpoch;
    this.stepsPerEpoch = p.epoch > 0 && p.step > 0 ? p.step / p.epoch : this.stepsPerEpoch;
  }

  xOf(row) {
    return this.axis === 'step' ? row.step :
        this.axis === 'time'    ? row.time :
                                  (row.epoch || 0) * (this.samplesPerEpoch || 1);
  }

  /* Where a step stands on the axis. */
  xOfStep(step, time) {
    if (this.axis === 'step') {
      return step;
    }
    if (this.axis === 'time' && typeof time === 'number') {
      return time;
    }
    if (this.scale[this.axis].length) {
      return between(this.scale.step, this.scale[this.axis], step);
    }
    return this.axis === 'samples' && this.samplesPerEpoch && this.stepsPerEpoch ?
        step / this.stepsPerEpoch * this.samplesPerEpoch :
        0;
  }

  /* Assignments with the step where they came into force, as `at`. A restart begins again with an assignment of step 0,
   * so its place follows from the clock. */
  placed() {
    const began = this.job.started ? new Date(this.job.started).getTime() : NaN;
    let last = 0;
    return this.assignments.map((a, i) => {
      const restart = i > 0 && a.step === 0;
      const seconds = (new Date(a.time).getTime() - began) / 1000;
      const at = !restart ? a.step :
          Number.isFinite(seconds) && this.scale.time.length ?
                            between(this.scale.time, this.scale.step, Math.max(0, seconds)) :
                            last;
      last = Math.max(last, at);
      return {...a, restart, at};
    });
  }

  /* Where an epoch begins, in steps (from what was seen so far). */
  stepOfEpoch(epoch) {
    return this.stepsPerEpoch ? epoch * this.stepsPerEpoch : NaN;
  }

  nodes() {
    const names = (this.job.workers || []).map((w) => w.node);
    return names.length ? names : this.staleness.nodes.map((n) => n.node);
  }

  /* {x, min, max, mean, total}: series and then the live rows. */
  curve(name, node = null) {
    const base = this.series.get(name + '|' + (node || ''));
    const out = base ? {
      x: base.x.slice(),
      min: base.min.map(num),
      max: base.max.map(num),
      mean: base.mean.map(num),
      total: base.total_points
    } :
                       {x: [], min: [], max: [], mean: [], total: 0};
    const last = out.x.length ? out.x[out.x.length - 1] : -Infinity;
    for (const [x, value] of node ? this.tailOf(name, node) : this.tailOfJob(name)) {
      if (x > last) {
        out.x.push(x);
        out.min.push(value);
        out.max.push(value);
        out.mean.push(value);
        out.total++;
      }
    }
    return out;
  }

  tailOf(name, node) {
    return (this.tail.get(node) || []).map((row) => [this.xOf(row), num(row[name])]);
  }

  /* Rows of one step are one point, weighted by their minibatches. */
  tailOfJob(name) {
    const field = {train_loss: 'loss', train_accuracy: 'accuracy'}[name];
    if (!field) {
      return name === 'samples_per_second' ? this.tailRate() : [];
    }
    const steps = new Map();
    for (const list of this.tail.values()) {
      for (const row of list) {
        if (Number.isFinite(row[field])) {
          const at = steps.get(row.step) || [this.xOf(row), 0, 0];
          at[1] += row[field] * row.batch;
          at[2] += row.batch;
          steps.set(row.step, at);
        }
      }
    }
    return [...steps.entries()].sort((a, b) => a[0] - b[0]).map(([, [x, sum, n]]) => [x, sum / n]);
  }

  tailRate() {
    const m = this.job.metrics || {};
    let newest = null;
    for (const list of this.tail.values()) {
      const row = list[list.length - 1];
      newest = row && (!newest || row.time > newest.time) ? row : newest;
    }
    return newest && m.samples_per_second > 0 ? [[this.xOf(newest), m.samples_per_second]] : [];
  }

  evaluationCurve(field) {
    const good = this.evaluations.filter((e) => Number.isFinite(e[field]));
    const x = good.map((e) => (this.axis === 'step' ? e.step : this.axis === 'time' ? e.time : e.samples));
    return {x, y: good.map((e) => e[field]), epochs: good.map((e) => e.epoch)};
  }

  /* [0, the newest x]. */
  extent() {
    let most = 0;
    for (const curve of this.series.values()) {
      most = Math.max(most, curve.x.length ? curve.x[curve.x.length - 1] : 0);
    }
    for (const list of this.tail.values()) {
      if (list.length) {
        most = Math.max(most, this.xOf(list[list.length - 1]));
      }
    }
    const tests = this.evaluationCurve('accuracy').x;
    return Math.max(most, tests.length ? tests[tests.length - 1] : 0);
  }
}

/* ys at x, on straight lines between the points; flat outside. */
function between(xs, ys, x) {
  let i = 0;
  while (i + 1 < xs.length && xs[i + 1] <= x) {
    i++;
  }
  const next = Math.min(i + 1, xs.length - 1);
  return xs[next] === xs[i] ? ys[i] :
                              ys[i] + (ys[next] - ys[i]) * Math.max(0, Math.min(1, (x - xs[i]) / (xs[next] - xs[i])));
}

function num(v) {
  return typeof v === 'number' ? v : NaN;
}
