/* Staleness of many nodes: a row of heat for each, five steps from low to high on one scale. */
import {xLabel, xTicks} from '../../../chart/scale.js';
import {cssVar, fill, h, keyed, say} from '../../../elements/dom.js';
import {known, mean} from '../../../text/format.js';

/** @typedef {import('../view.js').JobView} JobView */
/** @typedef {{node: Element, canvas: HTMLCanvasElement, end: Element}} HeatRow */

const BINS = [0, 1, 2, 3, 4];
const TALL = 18;
const DENSE = 6;
const DENSE_FROM = 40;
const RECENT = 30;

/** @param {number[]} values */
const average = (values) => values.reduce((sum, v) => sum + v, 0) / values.length;

export class HeatRows {
  /** @param {JobView} view */
  constructor(view) {
    this.view = view;
    this.node = h('div', {class: 'heat', hidden: true});
    this.foot = h('div', {class: 'heat-foot', hidden: true});
  }

  /**
   * @param {string[]} names
   * @param {number} most the greatest staleness that is shown
   */
  draw(names, most) {
    const {key} = this.view;
    const tall = names.length > DENSE_FROM ? DENSE : TALL;
    this.node.style.setProperty('--row', tall + 'px');
    this.node.classList.toggle('dense', tall === DENSE); /* no room for each one's texts */
    this.drawFoot(most);
    keyed(this.node, names, (n) => n + key.number(n), (n) => this.makeRow(n), (row, n) => {
      row.node.classList.toggle('told', key.number(n) > 0);
      this.drawRow(row, n, most, tall);
    });
  }

  /** @param {string} name */
  makeRow(name) {
    const label = 'Staleness of ' + name + ' over time';
    const canvas = h('canvas', {class: 'heat-row', role: 'img', 'aria-label': label});
    const end = h('span', {class: 'heat-end'});
    const head = h('span', {class: 'strip-name'}, this.view.key.label(name));
    return {node: h('div', {class: 'heat-line'}, head, canvas, end), canvas, end};
  }

  /**
   * @param {HeatRow} row
   * @param {string} name
   * @param {number} most
   * @param {number} tall
   */
  drawRow({canvas, end}, name, most, tall) {
    const raw = this.view.data.curves.curve('staleness', name);
    const width = canvas.clientWidth;
    canvas.width = width;
    canvas.height = tall;
    const ctx = canvas.getContext('2d');
    const colours = BINS.map((i) => cssVar('--h' + i));
    const [a, b] = this.view.group.window();
    if (ctx) {
      ctx.fillStyle = colours[0];
      ctx.fillRect(0, 0, width, tall);
      raw.x.forEach((x, i) => {
        const x0 = width * (x - a) / (b - a);
        const x1 = i + 1 < raw.x.length ? width * (raw.x[i + 1] - a) / (b - a) : x0 + 2;
        ctx.fillStyle = colours[Math.min(4, Math.floor(5 * raw.max[i] / (most + 0.001)))];
        ctx.fillRect(x0, 0, Math.max(1, x1 - x0), tall);
      });
    }
    const recent = raw.mean.slice(-RECENT).filter(known);
    say(end, recent.length ? mean(average(recent)) : '');
  }

  /**
   * Ticks of the axis, and what the five steps of the scale mean.
   * @param {number} most
   */
  drawFoot(most) {
    const {group} = this.view;
    const [a, b] = group.window();
    const text = [a, b, most, group.axis, this.foot.clientWidth].join();
    if (this.foot.dataset.key === text) {
      return;
    }
    this.foot.dataset.key = text;
    const ticks = xTicks(group.axis, a, b, 6).map((v) => h('span', {
      text: xLabel(group.axis, v, b - a),
      style: {left: 100 * (v - a) / (b - a) + '%'}
    }));
    fill(this.foot, h('div', {class: 'heat-axis'}, ticks), legend(most));
  }
}

/** @param {number} most */
function legend(most) {
  const edges = [...BINS, 5].map((i) => Math.ceil(i * (most + 0.001) / 5));
  const range = (/** @type {number} */ i) =>
      (edges[i] === edges[i + 1] - 1 ? String(edges[i]) : edges[i] + ' to ' + (edges[i + 1] - 1));
  const colour = (/** @type {number} */ i) => ({background: 'var(--h' + i + ')'});
  return h('p', {class: 'legend'},
      BINS.filter((i) => edges[i + 1] > edges[i])
          .map((i) => h('span', null, h('i', {class: 'ph', style: colour(i)}), range(i))));
}
