/* The data of the page of people: tokens, and what owners have, may have and have used. */
import {get, post, remove} from '../../service/api.js';

const DAY_SECONDS = 86400;

export class PeopleModel {
  constructor() {
    /** @type {Api.Token[]} */
    this.tokens = [];
    /** @type {Api.Owner[]} */
    this.owners = [];
    /** @type {Api.AccountingRow[]} the greatest use first */
    this.used = [];
    /** The days that were counted, as texts. */
    this.since = '';
    this.until = '';
  }

  async read() {
    const [tokens, owners, used] =
        await Promise.all([get('tokens'), get('owners'), get('accounting', {by: 'owner'})]);
    this.tokens = tokens.tokens;
    this.owners = owners.owners;
    this.used = used.accounting;
    this.since = used.since;
    this.until = used.until;
  }

  /**
   * Issues a token; its text comes this one time.
   * @param {string} name
   * @param {string} role
   * @param {number} days 0: it does not end by itself
   * @returns {Promise<string>}
   */
  async issue(name, role, days) {
    const made = await post('tokens', {name, role, seconds: days ? days * DAY_SECONDS : null});
    await this.read();
    return made.token;
  }

  /** @param {string} id */
  async revoke(id) {
    await remove('tokens/' + encodeURIComponent(id));
    await this.read();
  }
}
