/* A document that is being edited, as an object and as text. Soon after every change the service
   checks it in a dry run, and again later where it could not.

   The browser's entry of its history keeps the text, so that it is there again after a reload, a
   way back, a session that ended.

   Events: "spec" (it was changed), "unread" (what was typed is no document), "checked" (detail: the
   answer), "refused" (detail: the error). */
import {post} from '../service/api.js';

import {print, setAt} from './json.js';

const CHECK_MS = 300;
const AGAIN_MS = 5000; /* and twice as long each further time */
const AGAIN_MOST_MS = 60000;
const KEPT_CHARACTERS = 1e6; /* browsers limit what an entry keeps */

/** @typedef {import('../service/api.js').ApiError} ApiError */

/**
 * Whether the document was not checked, because the service did not answer or has trouble of its
 * own.
 * @param {ApiError} e
 */
export const mayPass = ({status}) => status === 0 || status === 429 || status >= 500;

/* A request that is sent twice makes one thing. */
function freshKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((b) => b.toString(16).padStart(2, '0')).join('');
}

export class Draft extends EventTarget {
  /** @param {string} path that takes the document, with ?dryRun=true to check it */
  constructor(path) {
    super();
    this.path = path;
    /** @type {any} */
    this.spec = {};
    this.text = '';
    this.key = freshKey();
    /** The text that was sent with this key. */
    this.sent = '';
    this.timer = 0;
    this.againMs = AGAIN_MS;
    this.aborter = new AbortController();
    this.closed = false;
  }

  /** @param {object} spec */
  begin(spec) {
    this.spec = spec;
    this.text = print(spec);
  }

  /* Restores the text that this entry of the history had when it was left. */
  restore() {
    const {draft} = history.state || {};
    if (typeof draft === 'string') {
      this.type(draft);
    }
  }

  keep() {
    if (!this.closed && this.text.length <= KEPT_CHARACTERS) {
      history.replaceState({draft: this.text}, '');
    }
  }

  close() {
    this.closed = true;
    this.stopChecking();
  }

  /**
   * The form changed one value.
   * @param {string} pointer
   * @param {unknown} value
   */
  change(pointer, value) {
    this.replace(setAt(this.spec, pointer, value));
  }

  /** @param {object} spec */
  replace(spec) {
    this.begin(spec);
    this.dispatchEvent(new Event('spec'));
    this.checkSoon();
  }

  /**
   * Somebody typed. The document follows where the text is an object; the check says where it is
   * not.
   * @param {string} text
   */
  type(text) {
    this.text = text;
    const readable = this.readable();
    this.spec = readable ? JSON.parse(text) : this.spec;
    this.dispatchEvent(new Event(readable ? 'spec' : 'unread'));
    this.checkSoon();
  }

  /* Whether the document is what the text says. */
  readable() {
    try {
      const parsed = JSON.parse(this.text);
      return parsed !== null && typeof parsed === 'object' && !Array.isArray(parsed);
    } catch (e) {
      return false;
    }
  }

  checkSoon() {
    this.againMs = AGAIN_MS;
    this.checkIn(CHECK_MS);
  }

  /** @param {number} ms */
  checkIn(ms) {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.check(), ms);
  }

  /* A host that is busy now may have time later. */
  checkLater() {
    this.checkIn(this.againMs);
    this.againMs = Math.min(2 * this.againMs, AGAIN_MOST_MS);
  }

  stopChecking() {
    clearTimeout(this.timer);
    this.aborter.abort();
  }

  /**
   * @param {string} type
   * @param {unknown} detail
   */
  tell(type, detail) {
    this.dispatchEvent(new CustomEvent(type, {detail}));
  }

  async check() {
    this.keep();
    this.aborter.abort();
    this.aborter = new AbortController();
    try {
      const {signal} = this.aborter;
      this.tell('checked', await post(this.path + '?dryRun=true', this.text, {signal}));
    } catch (e) {
      if (/** @type {Error} */ (e).name !== 'AbortError' && !this.closed) {
        this.tell('refused', e);
        if (mayPass(/** @type {ApiError} */ (e))) {
          this.checkLater();
        }
      }
    }
  }

  /**
   * Sends the document and returns the id of what was made. A text that is sent again, because
   * there was no answer, has the same key.
   * @returns {Promise<string>}
   */
  async send() {
    this.stopChecking();
    this.keep();
    if (this.sent !== this.text) {
      this.key = freshKey();
      this.sent = this.text;
    }
    try {
      return (await post(this.path, this.text, {headers: {'Idempotency-Key': this.key}})).id;
    } catch (e) {
      const {status} = /** @type {ApiError} */ (e);
      this.sent = status >= 400 && status < 500 ? '' : this.sent;
      throw e;
    }
  }

  /* The request as a command line. */
  curl() {
    const quoted = this.text.replace(/'/g, '\'\\\'\'');
    return 'curl -X POST \'' + location.origin + '/api/v1/' + this.path +
        '\' -H "Authorization: Bearer $EVENSTEP_TOKEN"' +
        ' -H \'Content-Type: application/json\' -d \'' + quoted + '\'';
  }
}
