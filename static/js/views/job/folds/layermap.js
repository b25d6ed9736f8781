/* The map of layers: a row of colour for each tensor, its name before it and its last value, or
   that under the reading line, behind it; ticks and what the colours mean beneath. */
import {xLabel, xTicks} from '../../../chart/scale.js';
import {cssVar, fill, h, keyed, say} from '../../../elements/dom.js';
import {three} from '../../../text/format.js';

import {between, normAt, shade} from './normrows.js';

/** @typedef {import('../view.js').JobView} JobView */
/** @typedef {import('./normrows.js').NormRow} NormRow */
/** @typedef {{node: Element, canvas: HTMLCanvasElement, end: Element}} MapLine */

const SCALE = ['--h0', '--h1', '--h2', '--h3', '--h4'];
const TICKS = 6;
const TALL = 20;
const DENSE = 14;
const DENSE_FROM = 24;

/** @param {number | null | undefined} v */
const valueText = (v) => (v === null ? 'NaN or infinite' : three(v));

export class LayerMap {
  /** @param {JobView} view */
  constructor(view) {
    this.view = view;
    /** @type {NormRow[]} */
    this.rows = [];
    /** @type {number[]} */
    this.places = [];
    /** @type {[number, number]} */
    this.range = [1, 10];
    this.lines = h('div', {class: 'norm-lines'});
    this.axis = h('div', {class: 'heat-axis'});
    this.low = h('span');
    this.high = h('span');
    this.steps = h('span', {class: 'norm-steps', 'aria-hidden': 'true'});
    this.lost = h('span', {class: 'norm-lost', hidden: true}, h('i'), 'NaN or infinite');
    this.foot = h('div', {class: 'norm-foot'}, this.axis,
        h('p', {class: 'legend'}, this.low, this.steps, this.high, this.lost));
    this.node = h('div', {class: 'norm-map'}, this.lines, this.foot);
    this.lines.addEventListener('pointermove', (e) => this.follow(e));
    this.lines.addEventListener('pointerleave', () => view.group.hover(null));
  }

  /** @param {PointerEvent} event */
  follow(event) {
    const canvas = this.lines.querySelector('canvas');
    if (canvas && this.places.length) {
      const {left, width} = canvas.getBoundingClientRect();
      const [a, b] = this.view.group.window();
      const x = a + (b - a) * (event.clientX - left) / width;
      this.view.group.hover(x >= a && x <= b ? this.places[normAt(this.places, x)] : null);
    }
  }

  /**
   * @param {NormRow[]} rows
   * @param {number[]} places
   * @param {[number, number]} range
   */
  draw(rows, places, range) {
    Object.assign(this, {rows, places, range});
    const tall = rows.length > DENSE_FROM ? DENSE : TALL;
    this.lines.style.setProperty('--row', tall + 'px');
    const colours = SCALE.map(cssVar);
    keyed(this.lines, rows, (r) => r.name, (r) => this.makeLine(r),
        (line, r) => this.paint(line.canvas, r, tall, colours));
    this.drawFoot(colours);
    this.point();
  }

  /**
   * @param {NormRow} row
   * @returns {MapLine}
   */
  makeLine({name}) {
    const canvas = h('canvas',
        {class: 'heat-row', role: 'img', 'aria-label': 'Norms of ' + name + ' over time'});
    const end = h('span', {class: 'norm-end'});
    const head = h('span', {class: 'norm-name', text: name, title: name});
    return {node: h('div', {class: 'norm-line'}, head, canvas, end), canvas, end};
  }

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {NormRow} row
   * @param {number} tall
   * @param {string[]} colours
   */
  paint(canvas, {values}, tall, colours) {
    const width = canvas.clientWidth;
    canvas.width = width;
    canvas.height = tall;
    const ctx = canvas.getContext('2d');
    const [a, b] = this.view.group.window();
    const lost = cssVar('--bad');
    let before = 0;
    for (const [i, place] of this.places.entries()) {
      const end = width * (place - a) / (b - a);
      const share = shade(values[i], this.range);
      if (ctx && end >= 0 && before <= width) {
        ctx.fillStyle = Number.isNaN(share) ? lost : between(colours, share);
        ctx.fillRect(Math.floor(before), 0, Math.max(1, Math.ceil(end - before)), tall);
      }
      before = end;
    }
  }

  /** @param {string[]} colours */
  drawFoot(colours) {
    const {group} = this.view;
    const [a, b] = group.window();
    const ticks = xTicks(group.axis, a, b, TICKS).map((v) => h('span', {
      text: xLabel(group.axis, v, b - a),
      style: {left: 100 * (v - a) / (b - a) + '%'}
    }));
    fill(this.axis, ticks);
    this.steps.style.background = 'linear-gradient(to right,' + colours.join(',') + ')';
    say(this.low, three(this.range[0]));
    say(this.high, three(this.range[1]) + ', log scale');
    this.lost.hidden = !this.rows.some((r) => r.values.includes(null));
  }

  /* The values under the reading line, or the last ones. */
  point() {
    const {hoverX} = this.view.group;
    const at = hoverX === null ? this.places.length - 1 : normAt(this.places, hoverX);
    const ends = this.lines.querySelectorAll('.norm-end');
    this.rows.forEach((r, i) => ends[i] && say(ends[i], valueText(r.values[at])));
    this.lines.classList.toggle('read', hoverX !== null);
    const [a, b] = this.view.group.window();
    this.lines.style.setProperty('--hair', String(((hoverX ?? a) - a) / (b - a)));
  }
}
