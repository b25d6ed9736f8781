/* What the page of a sweep knows: the sweep, read anew while it runs, and which trial is looked at.
   Events "change" and "look". */
import {get, post, remove} from '../../api.js';

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
    this.looked = 0;
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
  look(number) {
    if (number !== this.looked) {
      this.looked = number;
      this.dispatchEvent(new Event('look'));
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
