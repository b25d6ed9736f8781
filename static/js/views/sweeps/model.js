/* The data of a sweep's page: the sweep, read again while it runs, and which trial is highlighted.
   Events "change" and "highlight". */
import {get, post, remove} from '../../service/api.js';

const READ_MS = 1000;

export class SweepModel extends EventTarget {
  /** @param {string} id */
  constructor(id) {
    super();
    this.path = 'sweeps/' + encodeURIComponent(id);
    /** Set before anything is drawn. */
    /** @type {Api.Sweep} */
    this.sweep = /** @type {any} */ (null);
    /** The number of the trial under the pointer or the focus; 0: none. */
    this.highlighted = 0;
    this.closed = false;
    this.timer = 0;
  }

  ended() {
    return !['running', 'cancelling'].includes(this.sweep.state);
  }

  async load() {
    this.sweep = await get(this.path);
    this.dispatchEvent(new Event('change'));
  }

  start() {
    this.timer = window.setInterval(() => {
      if (!document.hidden && !this.ended()) {
        this.load().catch(() => {});
      }
    }, READ_MS);
  }

  /** @param {number} number of a trial; 0: none */
  highlight(number) {
    if (number !== this.highlighted) {
      this.highlighted = number;
      this.dispatchEvent(new Event('highlight'));
    }
  }

  async cancel() {
    await post(this.path + '/cancel');
    await this.load();
  }

  async remove() {
    await remove(this.path);
  }

  close() {
    clearInterval(this.timer);
  }
}
