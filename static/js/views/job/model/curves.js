/* A job's curves, from two sources:

     series (the service; the least, greatest and mean of each bucket)  ──┐
     rows of the stream (thinned, newer than the series)                ──┴─►  curve(name, node)

   Live rows are drawn at once; every few seconds the series are read again and replace them, so
   that what stays on the page is exact and its size does not depend on the job's length. Rows carry
   step and time; samples follow from the epoch. */
import {last} from '../../../measures/measures.js';
import {get, job as path} from '../../../service/api.js';

/* The key of a series in a row of the stream, for the job; series of nodes have their column's
 * name. */
/** @type {{[series: string]: string}} */
const OF_JOB = {
  train_loss: 'loss',
  train_accuracy: 'accuracy'
};
const TAIL_MOST = 4000;
/* Points of each figure over all nodes: 128 nodes have 28 points each in a chart. */
const NODE_POINTS = 3600;

/**
 * A row of the stream.
 * @typedef {{node: string, step: number, time: number, epoch?: number, batch: number,
 *            [field: string]: unknown}} LiveRow
 */

export class Curves {
  /**
   * @param {string} id of the job
   * @param {number} points that a curve has at most
   */
  constructor(id, points) {
    this.id = id;
    this.points = points;
    /** @type {Page.Axis} */
    this.axis = 'step';
    /** @type {Page.Range | null} */
    this.zoom = null;
    /** @type {Map<string, Api.Series>} */
    this.series = new Map();
    /** The series of the whole run, whatever is shown. */
    /** @type {Map<string, Api.Series>} */
    this.whole = new Map();
    /** @type {Map<string, LiveRow[]>} */
    this.tail = new Map();
    /** The same buckets in three units. */
    /** @type {{[axis in Page.Axis]: number[]}} */
    this.scale = {step: [], time: [], samples: []};
    this.samplesPerEpoch = 0;
    this.stepsPerEpoch = 0;
    /** Where attempts went on from a checkpoint: when, by the clock, and at which step. */
    /** @type {{at: number, step: number}[]} */
    this.resumed = [];
    /** The job's rate now, which rows do not have. */
    this.rate = 0;
  }

  /**
   * Takes the units from a job.
   * @param {Api.Job} job
   */
  learn(job) {
    const p = job.progress;
    if (p && p.epoch > 0) {
      this.samplesPerEpoch = p.samples > 0 ? p.samples / p.epoch : this.samplesPerEpoch;
      this.stepsPerEpoch = p.step > 0 ? p.step / p.epoch : this.stepsPerEpoch;
    }
    this.rate = job.metrics?.samples_per_second || 0;
  }

  /**
   * @param {Page.Axis} x
   * @param {string} names
   * @param {object} range
   * @param {number} points
   * @returns {Promise<Api.Series[]>}
   */
  async ask(x, names, range, points) {
    const ask = {names, x, points, node_points: NODE_POINTS, ...range};
    return (await get(path(this.id, 'series'), ask)).series;
  }

  /* Reads the series of the axis and range; an answer that came too late changes nothing. */
  async read() {
    const {axis, zoom} = this;
    const span = zoom ? zoom[1] - zoom[0] : 0;
    const range = zoom ? {from: zoom[0] - span * 0.02, to: zoom[1] + span * 0.02} : {};
    const unit = (/** @type {Page.Axis} */ x) => this.ask(x, 'train_loss', {}, 400);
    const [all, step, time, samples] = await Promise.all([
      this.ask(axis, 'all', range, this.points), unit('step'), unit('time'),
      axis === 'samples' ? unit('samples') : []
    ]);
    if (axis !== this.axis) {
      return;
    }
    this.series = new Map(all.map((c) => [c.name + '|' + (c.node || ''), c]));
    this.whole = zoom ? this.whole : this.series;
    this.scale = {step: step[0]?.x || [], time: time[0]?.x || [], samples: samples[0]?.x || []};
    this.prune();
  }

  /**
   * Means of the buckets of a series of the whole run; they are of about equally many rows.
   * @param {string} name
   * @param {string | null} [node]
   */
  means(name, node = null) {
    return (this.whole.get(name + '|' + (node || ''))?.mean || []).map(num);
  }

  /**
   * Whether a series of the whole run may have had this value at its end.
   * @param {string} name
   * @param {string} node
   * @param {number} value
   */
  endsAt(name, node, value) {
    const curve = this.whole.get(name + '|' + node);
    const end = (curve?.max.length || 0) - 1;
    return !curve || end < 0 || (num(curve.min[end]) <= value && value <= num(curve.max[end]));
  }

  /* Drops rows that the series have by now. */
  prune() {
    for (const [node, list] of this.tail) {
      const base = this.series.get('batch|' + node);
      const end = base && base.x.length ? last(base.x) : -Infinity;
      this.tail.set(node, this.zoom ? [] : list.filter((row) => this.xOf(row) > end));
    }
  }

  /** @param {LiveRow[]} rows in the order of time */
  add(rows) {
    for (const row of rows) {
      const list = this.tail.get(row.node) || [];
      if (!list.length || row.time >= list[list.length - 1].time) {
        list.push(row);
        if (list.length > TAIL_MOST) {
          list.splice(0, list.length - TAIL_MOST / 2);
        }
      }
      this.tail.set(row.node, list);
    }
  }

  /** @param {LiveRow} row */
  xOf(row) {
    if (this.axis === 'step') {
      return row.step;
    }
    return this.axis === 'time' ? row.time : (row.epoch || 0) * (this.samplesPerEpoch || 1);
  }

  /**
   * A step's place on the axis.
   * @param {number} step
   * @param {number} [time]
   */
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
    return this.axis === 'samples' && this.samplesPerEpoch && this.stepsPerEpoch
        ? step / this.stepsPerEpoch * this.samplesPerEpoch
        : 0;
  }

  /**
   * The step at a time, 0 before the first one, NaN where no series tells it.
   * @param {number} seconds
   */
  stepAtTime(seconds) {
    const {time, step} = this.scale;
    return Number.isFinite(seconds) && time.length
        ? between([0, ...time], [0, ...step], Math.max(0, seconds))
        : NaN;
  }

  /**
   * The step at which an epoch begins, from what was seen so far.
   * @param {number} epoch
   */
  stepOfEpoch(epoch) {
    return this.stepsPerEpoch ? epoch * this.stepsPerEpoch : NaN;
  }

  /**
   * Series and then the live rows.
   * @param {string} name
   * @param {string | null} [node]
   * @returns {Page.Curve}
   */
  curve(name, node = null) {
    const out = copy(this.series.get(name + '|' + (node || '')));
    const end = out.x.length ? last(out.x) : -Infinity;
    for (const [x, value] of node ? this.tailOf(name, node) : this.tailOfJob(name)) {
      if (x > end) {
        out.x.push(x);
        out.min.push(value);
        out.max.push(value);
        out.mean.push(value);
        out.total++;
      }
    }
    return out;
  }

  /**
   * A node's own time for its minibatch: computing, and loading if it is known.
   * @param {string} node
   * @returns {Page.Curve}
   */
  own(node) {
    const compute = this.curve('compute_seconds', node);
    const load = this.curve('load_seconds', node).mean;
    const mean = compute.mean.map((v, i) => v + (load[i] || 0));
    return load.length === mean.length ? {...compute, mean} : compute;
  }

  /**
   * @param {string} name
   * @param {string} node
   */
  tailOf(name, node) {
    return (this.tail.get(node) || []).map((row) => [this.xOf(row), num(row[name])]);
  }

  /**
   * Rows of one step are one point, weighted by their minibatches.
   * @param {string} name
   */
  tailOfJob(name) {
    if (name === 'samples_per_second') {
      return this.tailRate();
    }
    const steps = new Map();
    for (const row of [...this.tail.values()].flat()) {
      const value = num(row[OF_JOB[name]]);
      if (Number.isFinite(value)) {
        const at = steps.get(row.step) || [this.xOf(row), 0, 0];
        at[1] += value * row.batch;
        at[2] += row.batch;
        steps.set(row.step, at);
      }
    }
    return [...steps.entries()].sort((a, b) => a[0] - b[0]).map(([, [x, sum, n]]) => [x, sum / n]);
  }

  tailRate() {
    const ends = [...this.tail.values()].flatMap((list) => list.slice(-1));
    const newest = ends.reduce(
        (/** @type {LiveRow | null} */ a, row) => (!a || row.time > a.time ? row : a), null);
    return newest && this.rate > 0 ? [[this.xOf(newest), this.rate]] : [];
  }

  /* The newest x of all curves, 0 where there is none. */
  newest() {
    const ends = [...this.series.values()].flatMap((curve) => curve.x.slice(-1));
    const live = [...this.tail.values()].flatMap((list) => list.slice(-1)).map((r) => this.xOf(r));
    return Math.max(0, ...ends, ...live);
  }
}

/**
 * @param {Api.Series | undefined} base
 * @returns {Page.Curve}
 */
function copy(base) {
  if (!base) {
    return {x: [], min: [], max: [], mean: [], total: 0};
  }
  return {
    x: base.x.slice(),
    min: base.min.map(num),
    max: base.max.map(num),
    mean: base.mean.map(num),
    total: base.total_points
  };
}

/**
 * ys at x, on straight lines between the points; flat outside.
 * @param {number[]} xs
 * @param {number[]} ys
 * @param {number} x
 */
function between(xs, ys, x) {
  let i = 0;
  while (i + 1 < xs.length && xs[i + 1] <= x) {
    i++;
  }
  const next = Math.min(i + 1, xs.length - 1);
  if (xs[next] === xs[i]) {
    return ys[i];
  }
  return ys[i] + (ys[next] - ys[i]) * Math.max(0, Math.min(1, (x - xs[i]) / (xs[next] - xs[i])));
}

/**
 * @param {unknown} v
 * @returns {number}
 */
function num(v) {
  return typeof v === 'number' ? v : NaN;
}
