/* The drawing of the last steps: a lane per node to one scale of time. A row's time is the end of
   its step; inside, loading data comes first, then computing, the exchange, the wait. */
import {linearTicks} from '../../../chart/scale.js';
import {h, s} from '../../../elements/dom.js';
import {median, ownSeconds} from '../../../measures/measures.js';
import {hasServers} from '../../../spec/spec.js';
import {known, seconds, timeTick} from '../../../text/format.js';

/** @typedef {import('../view.js').JobView} JobView */
/** @typedef {import('./laststeps.js').Picked} Picked */
/**
 * The layout in pixels; x() converts a time in seconds.
 * @typedef {{width: number, height: number, gutter: number, lane: number, bottom: number,
 *            from: number, to: number, served: boolean, x: (time: number) => number}} Frame
 */

const LANE = 26;
const THIN_LANE = 16;
const FEW = 8;
const GAP = 4;
const RECENT = 12;
const PHASES = ['data', 'compute', 'exchange', 'wait'];

/** @param {Api.Row} row */
const lengthOf = (row) => ownSeconds(row) + row.exchange_seconds + row.wait_seconds;

export class Lanes {
  /**
   * @param {JobView} view
   * @param {(node: string, row: Api.Row) => void} onPick
   */
  constructor(view, onPick) {
    this.view = view;
    this.onPick = onPick;
  }

  /**
   * The range of time that is shown: some steps of the slowest node.
   * @param {Api.NodeRows[]} nodes
   * @returns {Page.Range}
   */
  rangeOf(nodes) {
    const end = Math.max(...nodes.map((n) => n.rows[n.rows.length - 1].time));
    const typical = nodes.map((n) => median(n.rows.slice(-RECENT).map(lengthOf)));
    const many = nodes.length > FEW ? 5 : 9;
    const steps = this.view.narrow ? 4 : many;
    return [end - steps * Math.max(...typical.filter(known), 1e-6), end];
  }

  /**
   * @param {Api.NodeRows[]} nodes
   * @param {number} count lanes
   * @param {number} width
   * @returns {Frame}
   */
  frame(nodes, count, width) {
    const [from, to] = this.rangeOf(nodes);
    const gutter = this.view.narrow ? 84 : 92;
    const lane = count > FEW ? THIN_LANE : LANE;
    const bottom = count * (lane + GAP);
    const served = hasServers(this.view.data.job);
    const x = (/** @type {number} */ t) => gutter + (width - gutter) * (t - from) / (to - from);
    return {
      width,
      height: bottom + (served ? 24 : 4) + 20,
      gutter,
      lane,
      bottom,
      from,
      to,
      served,
      x
    };
  }

  /**
   * The rows in the order of the job's nodes.
   * @param {Api.NodeRows[]} nodes
   */
  inOrder(nodes) {
    const of = new Map(nodes.map((n) => [n.node, n]));
    return this.view.data.nodes().flatMap((name) => of.get(name) || []);
  }

  /**
   * @param {Api.NodeRows[]} nodes whose updates are versions
   * @param {Api.NodeRows[]} order those that have a lane
   * @param {number} width
   * @param {Picked | null} picked
   * @param {Api.Row | undefined} row the picked one
   */
  draw(nodes, order, width, picked, row) {
    const f = this.frame(nodes, order.length, width);
    const svg = canvas(f);
    const labels = order.map((n, i) => {
      const top = i * (f.lane + GAP) + (f.lane - 20) / 2 + 'px';
      return h('span', {class: 'lane-name', style: {top}}, this.view.key.label(n.node));
    });
    order.forEach((n, i) => svg.append(...this.drawLane(n, i * (f.lane + GAP), f)));
    if (f.served) {
      labels.push(
          h('span', {class: 'lane-name quiet', text: 'server', style: {top: f.bottom + 'px'}}));
      svg.append(...this.drawVersions(nodes, f));
    }
    svg.append(...drawTicks(f, this.view.narrow ? 3 : 6));
    const lane = order.findIndex((n) => n.node === picked?.node);
    if (row && lane >= 0) {
      svg.append(...drawBracket(row, lane, f));
    }
    return {nodes: [svg, labels], seconds: f.to - f.from};
  }

  /**
   * @param {Api.NodeRows} n
   * @param {number} y
   * @param {Frame} f
   */
  drawLane(n, y, f) {
    const {chosen} = this.view;
    const cls = 'step' + (chosen && chosen !== n.node ? ' dim' : '');
    /** @type {Element[]} */
    const made = [s(
        'rect', {x: f.gutter, y, width: f.width - f.gutter, height: f.lane, class: 'lane-ground'})];
    let before = -Infinity; /* a step that overlaps the last one was computed during it */
    for (const row of n.rows) {
      const begin = row.time - lengthOf(row);
      const loaded = begin + (row.load_seconds || 0);
      const computed = loaded + row.compute_seconds;
      const cuts = [begin, loaded, computed, computed + row.exchange_seconds, row.time].map(
          (t) => Math.max(f.gutter, f.x(Math.max(t, before))));
      before = row.time;
      if (cuts[4] > f.gutter + 0.5) {
        const on = {click: () => this.onPick(n.node, row)};
        made.push(s('g', {class: cls, on}, phases(row, cuts, y, f), stepTexts(row, cuts, y, f)));
      }
    }
    return made;
  }

  /**
   * The server's versions: the node's mark where an update of it was applied.
   * @param {Api.NodeRows[]} order
   * @param {Frame} f
   */
  drawVersions(order, f) {
    return order.flatMap(
        (n) => n.rows.filter((r) => r.time >= f.from && r.time <= f.to).map((row) => {
          const mark = this.view.key.mark(n.node, 9);
          mark.setAttribute('x', String(f.x(row.time) - 4.5));
          mark.setAttribute('y', String(f.bottom + 10 - 4.5));
          return mark;
        }));
  }
}

/** @param {Frame} f */
function canvas(f) {
  const hatch = s('pattern', {
    id: 'hatch',
    width: 4,
    height: 4,
    patternUnits: 'userSpaceOnUse',
    patternTransform: 'rotate(45)'
  },
      s('rect', {width: 4, height: 4, class: 'hatch-ground'}),
      s('rect', {width: 2, height: 4, class: 'hatch-line'}));
  return s('svg', {
    width: f.width,
    height: f.height,
    viewBox: '0 0 ' + f.width + ' ' + f.height,
    class: 'lanes-svg',
    role: 'img',
    'aria-label': 'steps of the last ' + seconds(f.to - f.from)
  },
      s('defs', null, hatch));
}

/**
 * Loading data, computing, exchange and wait of a step; `cuts` are their five edges in pixels.
 * @param {Api.Row} row
 * @param {number[]} cuts
 * @param {number} y
 * @param {Frame} f
 */
function phases(row, cuts, y, f) {
  const alone = row.exchange_seconds + row.wait_seconds === 0;
  return PHASES.map((name, k) => {
    const wide = cuts[k + 1] - cuts[k];
    const gap = name === 'wait' || (name === 'compute' && alone) ? 1 : 0;
    return wide > 0.1 && s('rect', {
      x: cuts[k].toFixed(1),
      y,
      width: Math.max(name === 'compute' ? 0.5 : 1, wide - gap).toFixed(1),
      height: f.lane,
      class: 'lane-' + name,
      fill: name === 'exchange' ? 'url(#hatch)' : undefined
    });
  });
}

/**
 * The step's end, and its minibatch and computing time where there is room.
 * @param {Api.Row} row
 * @param {number[]} cuts
 * @param {number} y
 * @param {Frame} f
 */
function stepTexts(row, [, begin, computed, , end], y, f) {
  const room = computed - begin;
  const middle = y + f.lane / 2 + 4;
  const took = seconds(row.compute_seconds);
  return [
    s('line', {x1: end, x2: end, y1: y, y2: y + f.lane, class: 'lane-edge'}),
    room > 34 && s('text', {x: begin + 5, y: middle, class: 'lane-batch'}, String(row.batch)),
    room > 44 + 7.5 * took.length &&
        s('text', {x: computed - 5, y: middle, class: 'lane-took', 'text-anchor': 'end'}, took)
  ];
}

/**
 * @param {Frame} f
 * @param {number} most
 */
function drawTicks(f, most) {
  const range = f.to - f.from;
  return linearTicks(-range, 0, most).map((t) => {
    const x = f.x(f.to + t);
    const first = x < f.gutter + 30 ? 'start' : 'middle';
    return s('text', {
      x: Math.min(f.width - 2, x),
      y: f.height - 4,
      class: 'lane-tick',
      'text-anchor': t === 0 ? 'end' : first
    },
        t === 0 ? 'now' : '−' + timeTick(-t, range));
  });
}

/**
 * The picked step, and a bracket down to the versions that it spans.
 * @param {Api.Row} row
 * @param {number} lane
 * @param {Frame} f
 */
function drawBracket(row, lane, f) {
  const x0 = f.x(row.time - lengthOf(row));
  const x1 = f.x(row.time);
  const y = lane * (f.lane + GAP);
  const foot = y + f.lane + 1;
  const width = Math.max(2, x1 - x0);
  const box = s('rect', {x: x0, y: y - 1, width, height: f.lane + 2, class: 'pick'});
  const path = 'M' + x0 + ' ' + foot + 'V' + (f.bottom + 20) + 'H' + x1 + 'V' + foot;
  return f.served ? [box, s('path', {d: path, class: 'pick'})] : [box];
}
