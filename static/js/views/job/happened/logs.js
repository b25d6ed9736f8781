/* The drawer at the foot of the page: counts of errors and warnings and the last line; open: the
   log of a rank. Lines are text, whatever they hold. */
import {fill, h, keyed, say} from '../../../elements/dom.js';
import {icon} from '../../../elements/icons.js';
import {active} from '../../../elements/states.js';
import {getText, job as path} from '../../../service/api.js';
import {hasServers} from '../../../spec/spec.js';
import {plural} from '../../../text/format.js';

import {levelOf, logsOf, pretty, resumedIn, timeOf} from './loglines.js';

/** @typedef {import('../view.js').JobView} JobView */
/** @typedef {import('./loglines.js').Source} Source */
/** @typedef {{id: Source, line: string, at: string, level: string}} LogLine */

/* How many lines are shown: of a single rank, and of all ranks together, at least so many of
 * each. */
const TAIL = 400;
const TAIL_OF_ALL = 8000;
const TAIL_LEAST = 40;
const OPEN_MS = 2000;
const CLOSED_MS = 8000;

/**
 * Orders by time if both lines have one, else as they came.
 * @param {LogLine} a
 * @param {LogLine} b
 */
function inTime(a, b) {
  if (!a.at || !b.at || a.at === b.at) {
    return 0;
  }
  return a.at < b.at ? -1 : 1;
}

/**
 * @param {HTMLElement} pill
 * @param {string} text
 * @param {string} tone
 * @param {string} name of the icon
 */
function setPill(pill, text, tone, name) {
  if (pill.textContent !== text) {
    pill.dataset.tone = tone;
    fill(pill, icon(name, 12), text);
  }
}

/** @implements {Page.Part} */
export class Logs {
  /** @param {JobView} view */
  constructor(view) {
    this.view = view;
    this.data = view.data;
    /** @type {Map<Source, string[]>} */
    this.texts = new Map();
    this.open = false;
    /** @type {Source} */
    this.rank = 'all';
    this.timer = 0;
    this.closed = false;
    this.known = '';
    this.errors = h('span', {class: 'pill'});
    this.warnings = h('span', {class: 'pill'});
    this.ranks = h('span', {class: 'quiet'});
    this.last = h('span', {class: 'mono last-line'});
    this.bar = this.makeBar();
    this.tabs = h('div', {class: 'seg', role: 'group', 'aria-label': 'Rank'});
    this.lines =
        h('div', {class: 'log-lines mono', tabindex: '0', role: 'log', 'aria-label': 'Log lines'});
    this.body = h('div', {class: 'drawer-body', id: 'log-body', hidden: true},
        h('div', {class: 'drawer-tools'}, this.tabs), this.lines);
    this.node = h('aside', {class: 'drawer', 'aria-label': 'Logs'}, this.bar, this.body);
  }

  makeBar() {
    return h('button', {
      type: 'button',
      class: 'drawer-bar',
      'aria-expanded': 'false',
      'aria-controls': 'log-body',
      id: 'logs',
      on: {click: () => this.flip()}
    },
        h('span', {class: 'chevron'}, icon('up', 12)), h('b', {text: 'Logs'}), this.ranks,
        this.errors, this.warnings, this.last);
  }

  /** @param {Set<string>} what */
  update(what) {
    const now = this.sources().join() + this.data.job.state;
    if (now !== this.known || what.has('job')) {
      this.known = now;
      if (this.open) {
        this.drawTabs();
      }
      this.read();
    }
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    document.body.classList.remove('logs-open');
  }

  flip() {
    this.open = !this.open;
    this.body.hidden = !this.open;
    this.bar.setAttribute('aria-expanded', String(this.open));
    this.node.classList.toggle('open', this.open);
    document.body.classList.toggle('logs-open', this.open);
    if (this.open) {
      this.drawTabs();
      this.read();
    }
  }

  /** @returns {Source[]} */
  sources() {
    const {workers = [], servers = []} = this.data.job;
    return ['launcher', ...[...workers, ...servers].map((w) => w.rank)];
  }

  /* How many lines of each log are read, if one request reads all. */
  tailOfEach() {
    const share = Math.floor(TAIL_OF_ALL / this.sources().length);
    return Math.max(TAIL_LEAST, Math.min(TAIL, share));
  }

  /**
   * A log, or all; null where the service does not answer.
   * @param {{[name: string]: unknown}} params
   * @returns {Promise<string | null>}
   */
  ask(params) {
    return getText(path(this.data.id, 'logs'), params).catch(() => null);
  }

  async read() {
    clearTimeout(this.timer);
    const {rank} = this;
    const tail = this.tailOfEach();
    const one = {tail: TAIL, ...(rank === 'launcher' ? {} : {rank})};
    const [all, own] = await Promise.all([
      this.ask({all: true, tail}), this.open && rank !== 'all' && tail < TAIL ? this.ask(one) : null
    ]);
    this.texts = all === null ? this.texts : logsOf(all);
    if (own !== null) {
      this.texts.set(rank, own.split('\n').filter(Boolean));
    }
    if (!this.closed) {
      this.tellResumed();
      this.draw();
      if (this.data.job.error) { /* its part shows the lines around it */
        this.view.summary.error.update();
      }
      this.view.rows.attempts.update();
      if (active(this.data.job.state)) {
        clearTimeout(this.timer);
        this.timer = window.setTimeout(() => this.read(), this.open ? OPEN_MS : CLOSED_MS);
      }
    }
  }

  /* Updates the places of marks and attempts by the log. */
  tellResumed() {
    const {curves} = this.data;
    const resumed = resumedIn(this.texts);
    if (JSON.stringify(resumed) !== JSON.stringify(curves.resumed)) {
      curves.resumed = resumed;
      this.data.emit('marks');
    }
  }

  /**
   * Lines of a rank, or of all in the order of time.
   * @param {Source} rank
   * @returns {LogLine[]}
   */
  linesOf(rank) {
    const all = rank === 'all';
    const texts = [...this.texts].filter(([id]) => all || String(rank) === String(id));
    const lines = texts.flatMap(
        ([id, text]) => text.map((line) => ({id, line, at: timeOf(line), level: levelOf(line)})));
    return all ? lines.sort(inTime) : lines;
  }

  draw() {
    const all = this.linesOf('all');
    const [bad, warn] =
        ['error', 'warn'].map((level) => all.filter((l) => l.level === level).length);
    setPill(this.errors, plural(bad, 'error'), bad ? 'bad' : '', bad ? 'cross' : 'check');
    setPill(this.warnings, plural(warn, 'warning'), warn ? 'warn' : '', warn ? 'warn' : 'check');
    say(this.ranks, plural(Math.max(0, this.sources().length - 1), 'rank'));
    say(this.last, all.length ? pretty(all[all.length - 1].line) : 'no line yet');
    if (this.open) {
      this.drawLines();
    }
  }

  /* The end stays in sight where it was. */
  drawLines() {
    const {lines} = this;
    const shown = this.linesOf(this.rank).slice(-TAIL);
    const atEnd = lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 30;
    if (shown.length) {
      keyed(lines, shown, (l, i) => l.id + '|' + l.line + '|' + i, (l) => {
        const source = l.id === 'launcher' ? 'launcher' : 'rank ' + l.id;
        return h('p', {class: 'log-' + (l.level || 'plain')},
            h('span', {class: 'log-rank', text: source}), pretty(l.line));
      });
    } else {
      fill(lines, h('p', {class: 'quiet', text: 'This rank has said nothing yet.'}));
    }
    if (atEnd) {
      lines.scrollTop = lines.scrollHeight;
    }
  }

  drawTabs() {
    const {workers = [], servers = []} = this.data.job;
    const role = hasServers(this.data.job) ? 'server' : 'keeper';
    /** @type {[Source, string][]} */
    const tabs = [
      ['all', 'All'], ['launcher', 'Launcher'],
      ...workers.map((w) => /** @type {[Source, string]} */ ([w.rank, w.rank + ' ' + w.node])),
      ...servers.map((w) => /** @type {[Source, string]} */ ([w.rank, w.rank + ' ' + role]))
    ];
    fill(this.tabs, tabs.map(([id, text]) => h('button', {
      type: 'button',
      'aria-pressed': String(String(id) === String(this.rank)),
      text,
      on: {click: () => this.choose(id)}
    })));
  }

  /** @param {Source} rank */
  choose(rank) {
    this.rank = rank;
    fill(this.lines);
    this.drawTabs();
    this.draw();
    this.read();
  }
}
