/* The job's page: head, verdict with the node table, numbers, chart controls, chart rows, last
   steps, configuration, artifacts, logs. The model knows the job; every part is a class in a file
   of its own with the same form: {node, update(what), point?, close?}. Parts are drawn at most four
   times a second; where nothing but the pointer over the charts has moved, only parts that have
   `point` are told. */
import {ChartGroup} from '../../chart/group.js';
import {fill, h, throttle} from '../../elements/dom.js';
import {NodeKey} from '../../elements/nodekey.js';
import {perSample} from '../../measures/measures.js';
import {verdict} from '../../sentences/verdict.js';
import {stream} from '../../service/events.js';

import {Controls} from './controls.js';
import {Staleness} from './exchange/staleness.js';
import {StrategyFigure} from './exchange/strategy.js';
import {Folds} from './folds/folds.js';
import {Attempts} from './happened/attempts.js';
import {CrashList} from './happened/crashlist.js';
import {EventLane} from './happened/eventlane.js';
import {Logs} from './happened/logs.js';
import {cutsOf, marksOf, merged} from './happened/marks.js';
import {Head} from './head/head.js';
import {Learning} from './learning/learning.js';
import {Logged} from './learning/logged.js';
import {JobModel} from './model/model.js';
import {RowFigures} from './rowfigures.js';
import {LastSteps} from './speed/laststeps.js';
import {Minibatch} from './speed/minibatch.js';
import {Throughput} from './speed/throughput.js';
import {Summary} from './summary/summary.js';

const DRAW_MS = 250;
const ZOOM_MS = 200;
const COLOURS = 8;
const PHONE = window.matchMedia('(max-width: 700px)');

export class JobView {
  /**
   * @param {Element} root
   * @param {Page.Route} route
   * @param {JobModel} data
   */
  constructor(root, route, data) {
    this.root = /** @type {HTMLElement} */ (root);
    this.route = route;
    this.data = data;
    this.group = new ChartGroup();
    this.key = new NodeKey(data.nodes());
    /* what the controls choose */
    this.smoothing = 0.8;
    this.log = true;
    this.marks = 'all';
    this.follow = true;
    /** The node that is highlighted in every chart. */
    /** @type {string | null} */
    this.chosen = null;
    /** Nodes that have a colour, where there are more than colours. */
    /** @type {string[]} */
    this.picked = [];
    this.pickedText = '';
    /** Where smoothing starts anew, and the newest x. */
    /** @type {number[]} */
    this.cuts = [];
    this.newest = 0;
    this.changes = new Set(['all']);
    this.zoomTimer = 0;
    this.drawSoon = throttle(() => this.drawNow(), DRAW_MS);
    this.onState = () => this.draw('all');
    this.head = new Head(this);
    this.summary = new Summary(this);
    this.lane = new EventLane(this);
    this.rows = this.makeRows();
    this.folds = new Folds(this);
    this.logs = new Logs(this);
    /** Every part, in the order in which they are drawn. */
    /** @type {Page.Part[]} */
    this.parts =
        [this.head, this.summary, this.lane, ...Object.values(this.rows), this.folds, this.logs];
    this.layout();
    this.listen();
  }

  /* Whether the screen is a phone's, now. */
  get narrow() {
    return PHONE.matches;
  }

  /* Rows of the sheet, one under the other. */
  makeRows() {
    return {
      controls: new Controls(this),
      learning: new Learning(this, this.lane.node),
      logged: new Logged(this),
      attempts: new Attempts(this),
      crashes: new CrashList(this),
      staleness: new Staleness(this),
      minibatch: new Minibatch(this),
      throughput: new Throughput(this),
      strategy: new StrategyFigure(this),
      figures: new RowFigures(this),
      steps: new LastSteps(this)
    };
  }

  layout() {
    const rows = Object.values(this.rows).map((part) => part.node);
    const sheet = h('div', {class: 'sheet job-sheet'}, this.summary.node,
        h('div', {class: 'rows'}, rows), this.folds.node);
    fill(this.root, this.head.node, sheet, this.logs.node);
  }

  listen() {
    this.data.addEventListener('change', (e) => {
      if (this.data.deleted) {
        location.hash = '#/';
      } else {
        this.draw(/** @type {CustomEvent} */ (e).detail);
      }
    });
    this.group.addEventListener('zoom', (e) => this.onZoom(/** @type {CustomEvent} */ (e).detail));
    this.group.addEventListener('hover', () => this.draw('hover'));
    stream.addEventListener('state', this.onState);
    PHONE.addEventListener('change', this.onState);
    window.addEventListener('evenstep-theme', this.onState);
  }

  /* Highlights a node in every chart; once more releases it. */
  /** @param {string} node */
  choose(node) {
    this.chosen = this.chosen === node ? null : node;
    if (this.key.many && this.chosen && !this.picked.includes(node)) {
      this.picked = [...this.picked, node].slice(-COLOURS);
    }
    this.root.dataset.chosen = this.chosen || '';
    this.draw();
  }

  /** @param {Page.Range | null} range */
  onZoom(range) {
    const {axis} = this.data.curves;
    clearTimeout(this.zoomTimer);
    this.zoomTimer = window.setTimeout(
        () => this.data.setAxis(this.data.curves.axis, range).catch(() => {}), ZOOM_MS);
    const digits = (/** @type {number} */ v) => String(+v.toPrecision(8));
    const params = range
        ? '?' + new URLSearchParams({x: axis, from: digits(range[0]), to: digits(range[1])})
        : '';
    history.replaceState(null, '', '#/' + this.route.path + params);
    this.draw('zoom');
  }

  /* A range that the address has. */
  async zoomAsAddressed() {
    const {params} = this.route;
    if (params.has('from')) {
      const axis = /** @type {Page.Axis} */ (params.get('x') || 'step');
      this.group.axis = axis;
      await this.data.setAxis(axis, null);
      this.group.setFull(0, this.data.extent());
      this.group.setZoom([Number(params.get('from')), Number(params.get('to'))]);
    }
  }

  /* With more than eight nodes up to eight have colours: always the straggler, the fastest, and the
   * chosen ones. */
  /** @param {string | undefined} straggler */
  pick(straggler) {
    const workers = (this.data.job.workers || []).filter((w) => Number.isFinite(perSample(w)));
    if (workers.length <= COLOURS) {
      return this.picked;
    }
    const fastest = workers.reduce((p, c) => (perSample(c) < perSample(p) ? c : p)).node;
    const first = this.picked.length ? this.picked : [fastest];
    return [...new Set([...first, straggler || fastest])].slice(-COLOURS);
  }

  /* Colours follow the nodes that there are. */
  drawKey() {
    const {data, key} = this;
    const names = data.nodes();
    const many = names.length > COLOURS;
    const picked =
        this.pick(many ? verdict(data.job, data.placed(), data.learned).straggler : undefined);
    if (names.join('|') !== key.names.join('|') || picked.join('|') !== this.pickedText) {
      this.picked = picked;
      this.pickedText = picked.join('|');
      key.set(names, picked);
      this.changes.add('all');
    }
  }

  drawNow() {
    if (!this.route.alive()) {
      return;
    }
    const {data, group} = this;
    this.drawKey();
    this.newest = data.extent();
    if (this.follow && group.hoverX === null) {
      group.setFull(0, this.newest);
    }
    const marks = marksOf(data, this.marks);
    group.marks = merged(marks, this.lane.pixels());
    group.faint = stream.state === 'away';
    this.cuts = cutsOf(marks);
    document.title = data.job.name + ' · Evenstep';
    const what = new Set(this.changes);
    this.changes.clear();
    const pointed = what.size === 1 && what.has('hover');
    this.parts.forEach((part) => (pointed ? part.point?.() : part.update(what)));
  }

  /**
   * Draws everything, also what is out of sight and every node, for a copy of the page. Afterwards
   * the lists are as before.
   * @param {() => Promise<void>} copy
   */
  async complete(copy) {
    /** @type {NodeListOf<HTMLElement>} */
    const folded = this.root.querySelectorAll('.few[aria-expanded=false]:not([hidden])');
    const turn = () => folded.forEach((more) => more.click());
    turn();
    try {
      this.drawAll();
      await Promise.all(this.parts.map((part) => part.complete?.()));
      await copy();
    } finally {
      turn();
    }
  }

  drawAll() {
    this.changes.add('all');
    this.drawNow();
  }

  draw(what = 'all') {
    this.changes.add(what);
    this.drawSoon();
  }

  close() {
    this.drawSoon.cancel();
    clearTimeout(this.zoomTimer);
    stream.removeEventListener('state', this.onState);
    PHONE.removeEventListener('change', this.onState);
    window.removeEventListener('evenstep-theme', this.onState);
    this.data.close();
    this.group.close();
    this.parts.forEach((part) => part.close?.());
  }
}

/**
 * @param {Element} root
 * @param {Page.Route} route
 * @returns {Promise<Page.View>}
 */
export async function show(root, route) {
  const data = new JobModel(route.args[0], PHONE.matches ? 144 : 380);
  document.title = 'Job · Evenstep';
  await data.load();
  if (!route.alive()) {
    return {};
  }
  const view = new JobView(root, route, data);
  data.start();
  view.drawNow();
  await view.zoomAsAddressed();
  return view;
}
