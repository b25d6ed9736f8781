/* The page's one stream of events. The browser itself resumes with Last-Event-ID after a short break; where it gives up
   (the service answered with an error) we open a new stream, which knows nothing of what came between, and tell
   everybody to read again ("gap"). A page in the background for a minute closes its stream, because a browser allows
   few connections to one host.

   Events on `stream`: those of the service ({job, data} in detail), "gap", and "state" (detail: connecting, live,
   away). */
const TYPES = ['job', 'live', 'rows', 'evaluation', 'assignment', 'staleness', 'node', 'log', 'deleted'];
const HIDDEN_MS = 60000;

class Stream extends EventTarget {
  constructor() {
    super();
    this.state = 'connecting';
    this.since = new Date();
    this.tries = 0;
    this.stopped = true;
    document.addEventListener('visibilitychange', () => this.onVisibility());
    window.addEventListener(
        'pagehide', () => this.sleep()); /* a page that the browser keeps for "back" would keep its connection too */
    window.addEventListener('pageshow', () => this.wakeUp());
  }

  start() {
    this.stopped = false;
    this.open();
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
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

  again() {
    const wait = Math.min(10000, 500 * 2 ** Math.min(5, this.tries++));
    this.nextTry = Date.now() + wait;
    this.timer = setTimeout(() => this.open(), wait);
    this.emit('state', this.state);
  }

  tryNow() {
    this.lost = true;
    this.open();
  }

  change(state) {
    if (state !== this.state) {
      this.wasAwayFor = this.state === 'away' ? (Date.now() - this.since.getTime()) / 1000 : 0;
      this.state = state;
      this.since = new Date();
      this.emit('state', state);
    }
  }

  emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, {detail}));
  }

  onVisibility() {
    clearTimeout(this.hiddenTimer);
    if (document.hidden) {
      this.hiddenTimer = setTimeout(() => this.sleep(), HIDDEN_MS);
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

/* Listens until the returned function is called; several types at once. */
export function listen(handlers) {
  const made = Object.entries(handlers).map(([type, fn]) => [type, (e) => fn(e.detail)]);
  made.forEach(([type, fn]) => stream.addEventListener(type, fn));
  return () => made.forEach(([type, fn]) => stream.removeEventListener(type, fn));
}
