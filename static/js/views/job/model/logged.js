/* The metrics that a job's program logged, read once the job tells of some. */
import {get, job as path} from '../../../service/api.js';

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
