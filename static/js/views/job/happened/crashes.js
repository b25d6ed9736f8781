/* Users' programs that ended and were restarted, read from the logs of their ranks
   (worker/program/start/again.c). The stream reports each such end at once; the log says what it
   was, and when the program was back. */
import {active} from '../../../elements/states.js';
import {getText, job as path} from '../../../service/api.js';

import {fieldOf, logsOf, timeOf, whyOf} from './loglines.js';

/**
 * `time` and `back` are seconds since the job's start; back: NaN while the program has not
 * returned.
 * @typedef {{node: string, rank: number, time: number, at: string, back: number, message: string}}
 *     Crash
 */

const TAIL = 5000;
const AGAIN_MS = 3000;

/**
 * @param {string[]} lines the log of a rank
 * @param {Api.Worker} worker
 * @param {number} began milliseconds
 * @returns {Crash[]}
 */
export function crashesIn(lines, {node, rank}, began) {
  /** @type {Crash[]} */
  const found = [];
  for (const line of lines) {
    const at = timeOf(line);
    const time = (Date.parse(at) - began) / 1000;
    const says = line.includes('mod=program') ? fieldOf(line, 'msg') : '';
    const open = found[found.length - 1];
    if (says === 'is started again') {
      found.push({node, rank, time, at, back: NaN, message: whyOf(line)});
    } else if (says === 'goes on' && open && Number.isNaN(open.back)) {
      open.back = time;
    }
  }
  return found;
}

/* The crashes of all ranks in the order of time; only users' programs have some. */
export class Crashes {
  /** @param {() => void} onChange */
  constructor(onChange) {
    this.onChange = onChange;
    /** @type {Crash[]} */
    this.list = [];
    this.timer = 0;
    this.closed = false;
  }

  /**
   * Reads the logs; again after a while, as long as a program is away.
   * @param {Api.Job} job
   */
  async read(job) {
    const {id, spec, started, workers = []} = job;
    if (!spec?.program) {
      return;
    }
    const began = Date.parse(started || '');
    const logs = logsOf(await getText(path(id, 'logs'), {all: true, tail: TAIL}).catch(() => ''));
    const all = workers.map((w) => crashesIn(logs.get(w.rank) || [], w, began));
    if (!this.closed) {
      this.list = all.flat().sort((a, b) => a.time - b.time);
      this.onChange();
      clearTimeout(this.timer);
      if (active(job.state) && this.list.some((c) => Number.isNaN(c.back))) {
        this.timer = window.setTimeout(() => this.read(job), AGAIN_MS);
      }
    }
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
  }
}
