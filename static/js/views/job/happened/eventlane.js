/* The lane of events over the charts, the only place where marks have words and icons. Labels that
   would collide are dropped, those of losses never: they move to the right. */
import {linearTicks, xTicks} from '../../../chart/scale.js';
import {fill, h, s} from '../../../elements/dom.js';
import {icon} from '../../../elements/icons.js';

/** @typedef {import('../view.js').JobView} JobView */

const ICONS = {
  change: 'swap',
  lost: 'cross',
  left: 'cross',
  failed: 'cross',
  restart: 'cross',
  resume: 'right',
  resize: 'expand',
  crash: 'warn',
  rate: 'rate',
  checkpoint: 'tick'
};
const LETTER = 6.4;

/**
 * @param {Element} node
 * @param {string} name
 */
function pixels(node, name) {
  return parseFloat(getComputedStyle(node).getPropertyValue(name));
}

/**
 * @param {number} x
 * @param {number} y1
 * @param {number} y2
 * @param {string} cls
 */
function upright(x, y1, y2, cls) {
  return s('line', {x1: x, x2: x, y1, y2, class: cls});
}

/** @implements {Page.Part} */
export class EventLane {
  /** @param {JobView} view */
  constructor(view) {
    this.view = view;
    this.node = h('div', {class: 'lane', 'aria-label': 'Events'});
    this.observer = new ResizeObserver(() => view.draw('marks'));
    this.observer.observe(this.node);
  }

  close() {
    this.observer.disconnect();
  }

  /* Pixels of one unit of the x axis; infinite as long as the lane has no width. */
  pixels() {
    const width =
        this.node.clientWidth - pixels(this.node, '--gutter') - pixels(this.node, '--ends');
    const [a, b] = this.view.group.window();
    return width > 0 ? width / (b - a) : Infinity;
  }

  update() {
    const {group} = this.view;
    const gutter = pixels(this.node, '--gutter');
    const width = this.node.clientWidth - gutter - pixels(this.node, '--ends');
    if (width < 50) {
      return;
    }
    const [a, b] = group.window();
    const at = (/** @type {number} */ x) => gutter + width * (x - a) / (b - a);
    const svg = s('svg',
        {width: this.node.clientWidth, height: 34, class: 'lane-svg', 'aria-hidden': 'true'},
        s('line', {x1: gutter, x2: gutter + width, y1: 25.5, y2: 25.5, class: 'lane-line'}));
    const ticks = group.axis === 'time' ? xTicks('time', a, b, 8) : linearTicks(a, b, 20);
    ticks.forEach((v) => svg.append(upright(at(v), 22, 25, 'lane-line')));
    const inside = group.marks.filter((m) => m.x >= a && m.x <= b);
    const events = inside.filter((m) => m.kind !== 'checkpoint');
    events.forEach((m) => svg.append(upright(at(m.x), 18, 34, 'lane-mark ' + m.kind)));
    for (const m of inside.filter((m) => m.kind === 'checkpoint')) {
      svg.append(upright(at(m.x), 26, 30, 'lane-mark checkpoint'));
    }
    fill(this.node, h('span', {class: 'lane-title', text: 'Events'}), svg, this.labels(events, at));
  }

  /**
   * @param {Page.Mark[]} events
   * @param {(x: number) => number} at
   */
  labels(events, at) {
    const labels = [];
    let free = -Infinity;
    for (const m of events) {
      const x = at(m.x);
      const wide = 16 + LETTER * m.text.length;
      const bad = ['lost', 'left', 'restart', 'failed'].includes(m.kind);
      if (x - 6 >= free || bad) {
        const left = bad ? Math.max(x - 6, free) : x - 6;
        const fits = left + 6 + wide < this.node.clientWidth;
        const words = fits && (!this.view.narrow || m.text.length < 4);
        const cls = 'lane-label' + (bad ? ' bad' : '');
        labels.push(h('span', {class: cls, title: m.title, style: {left: left + 'px'}},
            icon(ICONS[m.kind], 12), words ? m.text : null));
        free = left + 6 + (words ? wide : 14);
      }
    }
    return labels;
  }
}
