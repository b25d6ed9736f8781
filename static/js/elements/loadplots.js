/* How busy a node's host was: small plots of processors, memory, network and, where there is one,
   of the GPU, over one span of time. One LoadPlots draws one host. */
import {lastAtOrBefore} from '../chart/smooth.js';
import {bytes, clock, known, percent, when} from '../text/format.js';

import {h, s, say} from './dom.js';

/** @typedef {(number | null)[]} Values */
/**
 * @typedef {{name: string, lines: [string, Values][], most: number, text: (v: number) => string}}
 *     PlotFigure
 */

const DAY = 86400;
const WIDE = 300;
const TALL = 54;
const PAD = 2; /* so that a line at the top is seen whole */
/** Between two points further apart than so many of their own lengths there is no line. */
const GAP = 2.5;

/** @param {Values} values */
const greatest = (values) =>
    values.reduce((/** @type {number} */ most, v) => Math.max(most, v ?? 0), 0);

/** @param {Values} values */
const any = (values) => values.some((v) => v !== null);

/**
 * The figures of a node's load that can be shown.
 * @param {Api.NodeLoad} load
 * @returns {PlotFigure[]}
 */
export function loadFigures(load) {
  const {received_bytes_per_second: got, sent_bytes_per_second: sent} = load;
  const rate = (/** @type {number} */ v) => bytes(v) + '/s';
  const share = (/** @type {number} */ v) => percent(v, 0);
  /** @type {PlotFigure[]} */
  const all = [
    {name: 'CPU', lines: [['', load.cpu]], most: 1, text: share}, {
      name: 'Memory',
      lines: [['', load.memory_used_bytes]],
      most: greatest(load.memory_bytes),
      text: bytes
    },
    {
      name: 'Network',
      lines: [['in', got], ['out', sent]],
      most: Math.max(greatest(got), greatest(sent), 1000),
      text: rate
    },
    {name: 'GPU', lines: [['', load.gpu_busy]], most: 1, text: share}, {
      name: 'GPU memory',
      lines: [['', load.gpu_memory_used_bytes]],
      most: greatest(load.gpu_memory_bytes),
      text: bytes
    }
  ];
  return all.filter(({name, lines}) => !name.startsWith('GPU') || lines.some(([, v]) => any(v)));
}

/**
 * The path of a line within a box of 1 by 1, y downwards; a gap where nothing was told.
 * @param {Api.NodeLoad} load
 * @param {Values} values
 * @param {[number, number]} span seconds since 1970
 * @param {number} most
 */
export function loadPath({at, seconds}, values, [from, to], most) {
  let d = '';
  let end = -Infinity;
  at.forEach((time, i) => {
    const v = values[i];
    if (v === null || time < from || time > to) {
      return;
    }
    const joined = time - end <= GAP * (seconds[i] || 1);
    const x = (time - from) / (to - from || 1);
    const y = 1 - Math.min(1, v / (most || 1));
    if (!joined) { /* a mean begins where its seconds do */
      const begin = Math.max(0, (time - (seconds[i] || 0) - from) / (to - from || 1));
      d += 'M' + begin.toFixed(4) + ' ' + y.toFixed(4);
    }
    d += 'L' + x.toFixed(4) + ' ' + y.toFixed(4);
    end = time;
  });
  return d;
}

/* One figure. */
class LoadPlot {
  /** @param {string} name */
  constructor(name) {
    this.value = h('span', {class: 'load-value'});
    this.most = h('span', {class: 'load-most'});
    this.paths = [s('path', {class: 'load-line'}), s('path', {class: 'load-line second'})];
    this.hair = h('i', {class: 'load-hair', hidden: true});
    this.box = h('div', {class: 'load-box'},
        s('svg', {
          viewBox: '0 0 ' + WIDE + ' ' + TALL,
          preserveAspectRatio: 'none',
          role: 'img',
          'aria-label': name + ' over time'
        },
            s('g', {transform: 'translate(0 ' + PAD + ') scale(' + WIDE + ' ' + (TALL - PAD) + ')'},
                this.paths)),
        this.hair);
    this.node = h('div', {class: 'load-plot', role: 'group', 'aria-label': name},
        h('p', {class: 'load-head'}, h('span', {class: 'load-name', text: name}), this.value,
            this.most),
        this.box);
  }

  /**
   * @param {PlotFigure} figure
   * @param {Api.NodeLoad} load
   * @param {[number, number]} span
   */
  draw(figure, load, span) {
    const {lines, most, text} = figure;
    this.paths.forEach((path, i) => path.setAttribute(
                           'd', lines[i] ? loadPath(load, lines[i][1], span, most) : ''));
    say(this.most, 'of ' + text(most));
    this.most.hidden = figure.name === 'Network';
  }

  /**
   * @param {PlotFigure} figure
   * @param {number} i
   * @param {number} share of the width; NaN: no reading line
   */
  read({lines, text}, i, share) {
    const texts = lines.map(([name, values]) => {
      const v = values[i];
      return known(v) ? text(v) + (name ? ' ' + name : '') : 'none';
    });
    say(this.value, [...new Set(texts)].join(', '));
    this.hair.hidden = !(share >= 0);
    this.hair.style.left = 100 * share + '%';
  }
}

/* All figures of one host, with the span beneath. */
export class LoadPlots {
  /** @param {string} label */
  constructor(label) {
    /** @type {LoadPlot[]} */
    this.plots = [];
    this.names = '';
    this.row = h('div', {class: 'load-plots', role: 'group', 'aria-label': 'Load of ' + label});
    this.from = h('span');
    this.to = h('span');
    this.node =
        h('div', {class: 'load'}, this.row, h('p', {class: 'load-span quiet'}, this.from, this.to));
    /** @type {PlotFigure[]} */
    this.figures = [];
    /** @type {Api.NodeLoad | null} */
    this.load = null;
    /** @type {[number, number]} */
    this.span = [0, 1];
    this.row.addEventListener('pointermove', (e) => this.point(e));
    this.row.addEventListener('pointerleave', () => this.readAt(NaN));
  }

  /**
   * @param {Api.NodeLoad} load
   * @param {[number, number]} span
   */
  draw(load, span) {
    Object.assign(this, {load, span, figures: loadFigures(load)});
    const names = this.figures.map((f) => f.name).join();
    if (names !== this.names) {
      this.names = names;
      this.plots = this.figures.map((f) => new LoadPlot(f.name));
      this.row.replaceChildren(...this.plots.map((p) => p.node));
    }
    this.figures.forEach((f, i) => this.plots[i].draw(f, load, span));
    this.readAt(NaN);
  }

  /** @param {PointerEvent} event */
  point(event) {
    const box = this.plots.map((p) => p.box.getBoundingClientRect())
                    .find((r) => event.clientX >= r.left && event.clientX <= r.right);
    this.readAt(box ? (event.clientX - box.left) / box.width : NaN);
  }

  /** @param {number} share NaN: the newest */
  readAt(share) {
    const {load, span: [from, to]} = this;
    if (!load) {
      return;
    }
    const time = share >= 0 ? from + share * (to - from) : to;
    const i = lastAtOrBefore(load.at, time);
    this.figures.forEach((f, k) => this.plots[k].read(f, i, share));
    const told = (/** @type {number} */ t, /** @type {boolean} */ exact) => {
      const date = new Date(1000 * t);
      return to - from < DAY ? clock(date, exact) : when(date.toISOString());
    };
    say(this.from, told(from, to - from < 600));
    say(this.to, share >= 0 ? 'at ' + told(time, true) : told(to, to - from < 600));
  }
}
