/* The metrics that a job's program logged, read once the job tells of some, and as curves over the
   page's axis. */
import {get, job as path} from '../../../service/api.js';

/** @typedef {{step: number[], time: number[], samples: number[]}} Places */

/**
 * The places of a metric's points on each axis.
 * @param {Api.LoggedMetric} metric
 * @param {number} perEpoch samples of an epoch; 0: not known
 * @returns {Places}
 */
const placesOf = ({x, time, epoch}, perEpoch) =>
    ({step: x, time, samples: epoch.map((e) => e * perEpoch)});

/** @param {(number | null)[]} values null: it became NaN or infinite */
const numbers = (values) => values.map((v) => v ?? NaN);

/**
 * @param {Api.LoggedMetric} metric
 * @param {Page.Axis} axis
 * @param {number} perEpoch
 * @returns {Page.Curve}
 */
export function curveOf(metric, axis, perEpoch) {
  const {min, max, mean, total_points: total} = metric;
  const x = placesOf(metric, perEpoch)[axis];
  return {x, min: numbers(min), max: numbers(max), mean: numbers(mean), total};
}

export class LoggedMetrics {
  /**
   * @param {string} id of the job
   * @param {number} points of a metric at most
   */
  constructor(id, points) {
    this.id = id;
    this.points = points;
    /** @type {Api.LoggedMetric[]} */
    this.all = [];
  }

  /**
   * Where they cannot be read, those that were read stay.
   * @param {Api.Job} job
   */
  async read(job) {
    if (job.logged) {
      const answer = await get(path(this.id, 'logged'), {points: this.points}).catch(() => null);
      this.all = answer?.metrics ?? this.all;
    }
  }
}
