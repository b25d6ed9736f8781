/* The data of the audit page: the entries that were read, newest first, of everybody or of one
   name. */
import {get} from '../../service/api.js';

const PAGE = 100;

export class AuditModel {
  constructor() {
    /** @type {Api.AuditEntry[]} */
    this.entries = [];
    /** @type {string | null} the cursor of what is older */
    this.next = null;
    this.who = '';
    /** Counts readings, so that an answer that comes too late is dropped. */
    this.turn = 0;
  }

  /** @param {string} who its entries alone; empty: everybody's */
  async choose(who) {
    this.who = who;
    await this.read(null);
  }

  /** Reads older ones behind those that are there. */
  async more() {
    await this.read(this.next);
  }

  /** @param {string | null} cursor */
  async read(cursor) {
    const turn = ++this.turn;
    const {entries, next} = await get('audit', {limit: PAGE, who: this.who, cursor});
    if (turn === this.turn) {
      this.entries = cursor ? [...this.entries, ...entries] : entries;
      this.next = next;
    }
  }
}
