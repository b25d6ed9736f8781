/* Small drawings: sparkline, histogram, finish line, the parts of a step. SVG whose colours are
   variables, so a change of theme needs no code. */
import {known, seconds} from '../text/format.js';

import {h, s} from './dom.js';

export class Sparkline {
  /**
   * @param {number} width
   * @param {number} height
   * @param {string} label
   */
  constructor(width, height, label) {
    this.width = width;
    this.height = height;
    this.line = s('polyline', {class: 'spark'});
    this.dot = s('circle', {class: 'spark-dot', r: 2.5});
    this.node = s('svg', {
      class: 'sparkline',
      viewBox: '0 0 ' + width + ' ' + height,
      preserveAspectRatio: 'none',
      height,
      role: 'img',
      'aria-label': label
    },
        this.line, this.dot);
  }

  /**
   * @param {number[]} x
   * @param {(number | null)[]} y
   */
  set(x, y) {
    const good = x.flatMap((v, i) => (known(y[i]) ? [[v, Number(y[i])]] : []));
    this.node.classList.toggle('none', good.length === 0);
    if (good.length === 0) {
      return;
    }
    const across = scaleOf(good.map((p) => p[0]), 1);
    const up = scaleOf(good.map((p) => p[1]), 0.5);
    const at = good.map(([a, b]) => [(2 + (this.width - 6) * across(a)).toFixed(1),
                            (this.height - 3 - (this.height - 6) * up(b)).toFixed(1)]);
    this.line.setAttribute('points', at.map((p) => p.join(',')).join(' '));
    const [cx, cy] = at[at.length - 1];
    this.dot.setAttribute('cx', cx);
    this.dot.setAttribute('cy', cy);
  }
}

/**
 * A scale from 0 at the least value to 1 at the greatest.
 * @param {number[]} values
 * @param {number} alone where all values are the same
 */
function scaleOf(values, alone) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return (/** @type {number} */ v) => (most > least ? (v - least) / (most - least) : alone);
}

const HISTOGRAM = {
  width: 116,
  height: 30
};

/**
 * Updates by staleness; the dotted line is p95. All nodes share `bins`, so shapes can be compared.
 * @param {number[]} counts
 * @param {number} bins
 * @param {number | undefined} p95
 * @param {string} colour
 * @param {string} label
 */
export function histogram(counts, bins, p95, colour, label) {
  const {width, height} = HISTOGRAM;
  const most = Math.max(1, ...counts);
  const step = width / bins;
  const gap = step > 3 ? 1 : 0;
  const bars = counts.slice(0, bins).map((count, i) => {
    const tall = Math.max(1, height * count / most);
    return count > 0 && s('rect', {
      x: (i * step + gap / 2).toFixed(2),
      y: (height - tall).toFixed(2),
      width: Math.max(0.8, step - gap).toFixed(2),
      height: tall.toFixed(2),
      fill: 'currentColor'
    });
  });
  const x = known(p95) ? Math.min(width - 1, (p95 + 1) * step) : NaN;
  const node = s('svg', {
    class: 'histogram',
    viewBox: '0 0 ' + width + ' ' + (height + 1),
    width,
    height: height + 1,
    role: 'img',
    'aria-label': label
  },
      bars, s('line', {x1: 0, x2: width, y1: height + 0.5, y2: height + 0.5, class: 'base'}),
      known(x) && s('line', {x1: x, x2: x, y1: 0, y2: height, class: 'p95'}));
  node.style.color = colour;
  return node;
}

/* A bar per node that ends at the finish line; the whisker is the same node under an equal split, a
   notch where that would finish earlier. */
export class FinishBar {
  constructor() {
    this.compute = h('i', {class: 'fin-compute'});
    this.rest = h('i', {class: 'fin-rest'});
    this.whisker = h('i', {class: 'fin-whisker'});
    this.notch = h('i', {class: 'fin-notch'});
    this.text = h('span', {class: 'fin-text'});
    this.node =
        h('div', {class: 'fin'}, this.compute, this.rest, this.whisker, this.notch, this.text);
  }

  /**
   * Times in seconds; `scale` is the time that the whole width stands for.
   * @param {{own: number, rest: number, equal: number, scale: number, colour: string,
   *          label: string}} what
   */
  set({own, rest, equal, scale, colour, label}) {
    const all = own + rest;
    const pct = (/** @type {number} */ v) => Math.max(0, Math.min(100, 100 * v / scale)) + '%';
    const late = known(equal) && equal > all * 1.02;
    const early = known(equal) && equal < own * 0.98;
    this.node.style.setProperty('--node', colour);
    this.compute.style.width = pct(own);
    this.rest.style.left = pct(own);
    this.rest.style.width = pct(rest);
    this.whisker.hidden = !late;
    this.text.hidden = !late || !label;
    this.notch.hidden = !early;
    if (late) {
      this.whisker.style.left = pct(all);
      this.whisker.style.width = 'calc(' + pct(equal) + ' - ' + pct(all) + ')';
      this.text.style.left = 'calc(' + pct(equal) + ' + 6px)';
      this.text.textContent = label;
    }
    if (early) {
      this.notch.style.left = pct(equal);
    }
    this.node.title = seconds(own) + ' loading and computing, ' + seconds(rest) +
        ' exchange and wait' + (known(equal) ? '; with an equal split ' + seconds(equal) : '');
  }
}

/* The part of the scale in which the line's label would cover that of zero. */
const NEAR_ZERO = 0.15;

/**
 * The head of finish bars: zero, and the label of the line, which may cover zero.
 * @param {HTMLElement} label
 * @param {number} share of the scale
 */
export function placeLine(label, share) {
  const zero = /** @type {HTMLElement | null} */ (label.parentElement?.querySelector('.zero'));
  label.style.left = 100 * share + '%';
  if (zero) {
    zero.hidden = share < NEAR_ZERO;
  }
}

const MINI_WIDTH = 120;

/**
 * The mini form for the job list: bars and the line, no text.
 * @param {{all: number, equal: number, colour: string}[]} rows
 */
export function miniFinish(rows) {
  const longest = Math.max(...rows.map((r) => Math.max(r.all, known(r.equal) ? r.equal : 0)));
  const scale = Math.max(1e-9, longest) * 1.02;
  const px = (/** @type {number} */ v) => MINI_WIDTH * v / scale;
  const line = px(Math.max(0, ...rows.map((r) => r.all)));
  const [tall, gap] = rows.length > 6 ? [3, 1] : [6, 3];
  const height = rows.length * (tall + gap) + 4;
  const bars = rows.map((r, i) => {
    const y = 2 + i * (tall + gap);
    const end = px(r.all).toFixed(1);
    const bar = s('rect', {x: 0, y, height: tall, width: end, fill: 'currentColor'});
    bar.style.color = r.colour;
    const whisker = 'M' + end + ' ' + (y + tall / 2) + 'H' + px(r.equal).toFixed(1) + 'm0 -2.5v5';
    return [bar, r.equal > r.all * 1.02 && s('path', {class: 'whisk', d: whisker})];
  });
  return s('svg', {
    viewBox: '0 0 ' + MINI_WIDTH + ' ' + height,
    width: MINI_WIDTH,
    height,
    class: 'mini-finish',
    role: 'img',
    'aria-label': 'time for one step of each node'
  },
      bars, s('line', {class: 'finish-line', x1: line, x2: line, y1: 0, y2: height}));
}

/* One bar for the parts of a step: loading data, compute, exchange, wait. */
export class PhaseBar {
  constructor() {
    this.parts =
        ['data', 'compute', 'exchange', 'wait'].map((name) => h('i', {class: 'ph ' + name}));
    this.node = h('div', {class: 'phases'}, this.parts);
  }

  /**
   * @param {number[]} values
   * @param {number} scale
   */
  set(values, scale) {
    values.forEach((v, i) => {
      this.parts[i].style.width = Math.max(0, 100 * v / (scale || 1)) + '%';
    });
  }
}

/** @param {string[]} names */
export function phaseKey(...names) {
  const key = names.map((name) => h('span', null, h('i', {class: 'ph ' + name}), name));
  return h('p', {class: 'legend'}, key);
}
