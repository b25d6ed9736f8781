/* The page's one stream of events. The browser itself resumes with Last-Event-ID after a short
   break; where it gives up (the service answered with an error) we open a new stream, which knows
   nothing of what came between, and tell all listeners to read again ("gap"). A page in the
   background for a minute closes its stream, because a browser allows few connections to one host.
   A service that hangs, or a network that is gone, ends no connection: after a silence the page
   asks for a sign of life, and without one begins a new stream.

   Events on `stream`: those of the service ({job, data} in detail), "gap", and "state" (detail:
   connecting, live, away). */

/** @typedef {'connecting' | 'live' | 'away'} StreamState */
/**
 * @template {keyof Api.EventData} T
 * @typedef {(event: {job: string, data: Api.EventData[T]}) => unknown} Handler
 */
/** @typedef {{[T in keyof Api.EventData]?: Handler<T>}} Handlers */

const TYPES =
    ['job', 'live', 'rows', 'evaluation', 'assignment', 'staleness', 'node', 'log', 'deleted'];
const HIDDEN_MS = 60000;
const SILENCE_MS = 5000;
const ANSWER_MS = 4000;
const WATCH_MS = 500;

/* Whether the service answers in time; any answer is one. */
async function answers() {
  const control = new AbortController();
  const timer = setTimeout(() => control.abort(), ANSWER_MS);
  return fetch('/healthz', {cache: 'no-store', signal: control.signal})
      .then(() => true, () => false)
      .finally(() => clearTimeout(timer));
}

class Stream extends EventTarget {
  constructor() {
    super();
    /** @type {StreamState} */
    this.state = 'connecting';
    this.since = new Date();
    this.tries = 0;
    this.nextTry = 0;
    /** How long the service was away the last time, in seconds. */
    this.wasAwayFor = 0;
    this.stopped = true;
    /** Whether the next stream begins anew, so that something may have been missed. */
    this.lost = false;
    this.asleep = false;
    this.timer = 0;
    this.hiddenTimer = 0;
    this.watchTimer = 0;
    /** When the service was heard of the last time; whether it is being asked. */
    this.heard = 0;
    this.asking = false;
    /** @type {EventSource | null} */
    this.source = null;
    document.addEventListener('visibilitychange', () => this.onVisibility());
    /* a page that the browser keeps for "back" would keep its connection too */
    window.addEventListener('pagehide', () => this.sleep());
    window.addEventListener('pageshow', () => this.wakeUp());
  }

  start() {
    this.stopped = false;
    this.open();
    clearInterval(this.watchTimer);
    this.watchTimer = window.setInterval(() => this.watch(), WATCH_MS);
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
    clearInterval(this.watchTimer);
    this.source?.close();
    this.source = null;
  }

  open() {
    clearTimeout(this.timer);
    this.source?.close();
    const source = new EventSource('/api/v1/events');
    this.source = source;
    source.onopen = () => {
      this.tries = 0;
      this.heard = Date.now();
      if (this.lost) { /* a stream of its own, not resumed */
        this.lost = false;
        this.emit('gap', {});
      }
      this.change('live');
    };
    source.onerror = () => {
      this.change('away');
      if (source.readyState === EventSource.CLOSED && source === this.source && !this.stopped) {
        this.lost = true;
        this.again();
      }
    };
    source.addEventListener('gap', () => this.emit('gap', {}));
    for (const type of TYPES) {
      source.addEventListener(type, (e) => {
        this.heard = Date.now();
        let body;
        try {
          body = JSON.parse(e.data);
        } catch (wrong) {
          return;
        }
        this.emit(type, {job: body.job, data: body.data || {}});
      });
    }
  }

  /* Watches the stream itself, since events may be rare and the browser does not report the
   * comments between them. */
  async watch() {
    const quiet = Date.now() - this.heard > SILENCE_MS;
    if (!quiet || this.asking || this.asleep || document.hidden || this.state !== 'live') {
      return;
    }
    const {source} = this;
    this.asking = true;
    const lives = await answers();
    this.asking = false;
    if (lives) {
      this.heard = Date.now();
    } else if (this.source === source && this.state === 'live' && !this.stopped && !this.asleep) {
      source?.close();
      this.lost = true;
      this.change('away');
      this.again();
    }
  }

  again() {
    const wait = Math.min(10000, 500 * 2 ** Math.min(5, this.tries++));
    this.nextTry = Date.now() + wait;
    this.timer = window.setTimeout(() => this.open(), wait);
    this.emit('state', this.state);
  }

  tryNow() {
    this.lost = true;
    this.open();
  }

  /** @param {StreamState} state */
  change(state) {
    if (state !== this.state) {
      this.wasAwayFor = this.state === 'away' ? (Date.now() - this.since.getTime()) / 1000 : 0;
      this.state = state;
      this.since = new Date();
      this.emit('state', state);
    }
  }

  /**
   * @param {string} type
   * @param {unknown} detail
   */
  emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, {detail}));
  }

  onVisibility() {
    clearTimeout(this.hiddenTimer);
    if (document.hidden) {
      this.hiddenTimer = window.setTimeout(() => this.sleep(), HIDDEN_MS);
    } else {
      this.wakeUp();
    }
  }

  sleep() {
    this.asleep = this.asleep || (!this.stopped && Boolean(this.source));
    clearTimeout(this.timer);
    this.source?.close();
  }

  wakeUp() {
    if (this.asleep && !this.stopped) {
      this.asleep = false;
      this.lost = true;
      this.open();
    }
  }
}

export const stream = new Stream();

/**
 * Listens until the returned function is called; several types at once.
 * @param {Handlers} handlers
 */
export function listen(handlers) {
  const made = Object.entries(handlers).map(
      ([type, fn]) => ({type, listener: (/** @type {any} */ e) => fn(e.detail)}));
  made.forEach(({type, listener}) => stream.addEventListener(type, listener));
  return () => made.forEach(({type, listener}) => stream.removeEventListener(type, listener));
}
