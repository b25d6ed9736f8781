/* The metrics that a job's program logged, read once the job tells of some. */
import {get, job as path} from '../../../service/api.js';

/**
 * A range of the page's axis as the service reads it; a little more, for the lines that leave it.
 * @param {Page.Axis} axis
 * @param {Page.Range} zoom
 * @param {number} perEpoch samples of an epoch
 */
function rangeOf(axis, [from, to], perEpoch) {
  const unit = axis === 'samples' ? perEpoch || 1 : 1;
  const more = (to - from) * 0.02;
  const by = axis === 'samples' ? 'epoch' : axis;
  return {by, from: (from - more) / unit, to: (to + more) / unit};
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
   * Reads them, within the range that is shown. Where they cannot be read, those that were read
   * stay.
   * @param {Api.Job} job
   * @param {import('./curves.js').Curves} shown
   */
  async read(job, {axis, zoom, samplesPerEpoch}) {
    if (job.logged) {
      const range = zoom ? rangeOf(axis, zoom, samplesPerEpoch) : {};
      const ask = {points: this.points, ...range};
      const answer = await get(path(this.id, 'logged'), ask).catch(() => null);
      this.all = answer?.metrics ?? this.all;
    }
  }
}
