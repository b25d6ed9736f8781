/* The drawing of fitted lines: a point for each measured bucket, a line for each node, and the
   horizontal line of one step, whose crossings are the minibatches. Where there are more nodes than
   colours, the fastest and the slowest are named. */
import {linearTicks, spread} from '../../chart/scale.js';
import {s} from '../../elements/dom.js';
import {shape} from '../../elements/icons.js';
import {seconds} from '../../text/format.js';

/** @typedef {import('../../elements/nodekey.js').NodeKey} NodeKey */
/** @typedef {import('./fit.js').FittedLine} FittedLine */
/**
 * Pixels of a minibatch and of a time, how far the axes reach, and the right edge in pixels.
 * @typedef {{x: (b: number) => number, y: (t: number) => number, xMax: number, yMax: number,
 *            edge: number}} Scale
 */

const [HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [330, 64, 110, 12, 40];
const LEAST_WIDTH = 280;
const TICK_ROOM = 64;
const LETTER = 7.4;
const NAME = 21; /* pixels after a line's end; its mark is in between */
const GROUND = HEIGHT - BOTTOM;
const MOST_POINTS = 60;

/**
 * @param {FittedLine[]} lines
 * @param {number} equal minibatch of an equal split
 * @param {number} step seconds of one step
 * @param {number} width
 * @returns {Scale}
 */
function scaleOf(lines, equal, step, width) {
  const edge = width - RIGHT;
  const slowest = Math.max(...lines.map((l) => l.a + l.k * equal));
  const xMax = Math.max(equal, ...lines.map((l) => l.batch)) * 1.2;
  const yMax = Math.max(step * 1.25, Math.min(step * 3, slowest)) * 1.05;
  return {
    xMax,
    yMax,
    edge,
    x: (b) => LEFT + (edge - LEFT) * b / xMax,
    y: (t) => GROUND - (GROUND - TOP) * t / yMax
  };
}

/**
 * @param {number} x
 * @param {number} y
 * @param {string} text
 * @param {Page.Props} [props]
 */
function label(x, y, text, props) {
  return s('text', {x, y, class: 'lane-tick', ...props}, text);
}

/**
 * A name in so many letters at most: the end of a node's name tells it from others.
 * @param {string} name
 * @param {number} most
 */
function ended(name, most) {
  return name.length > most ? '…' + name.slice(1 - most) : name;
}

/**
 * @param {NodeKey} key
 * @param {string} node
 * @param {number} x
 * @param {number} y
 * @param {number} size
 * @param {boolean} [faint]
 */
function mark(key, node, x, y, size, faint = false) {
  const made = shape(key.shapeName(node), size);
  made.style.color = key.colour(node);
  made.setAttribute('x', String(x - size / 2));
  made.setAttribute('y', String(y - size / 2));
  made.setAttribute('class', 'shape' + (faint ? ' faint' : ' solid'));
  return made;
}

/**
 * Grid, ticks, and the equal split.
 * @param {Scale} scale
 * @param {number} equal
 */
function ground({x, y, xMax, yMax, edge}, equal) {
  const across =
      linearTicks(0, yMax, 5)
          .map((v) => [s('line', {x1: LEFT, x2: edge, y1: y(v), y2: y(v), class: 'fit-grid'}),
                   label(LEFT - 8, y(v) + 4, seconds(v), {'text-anchor': 'end'})]);
  const few = Math.max(2, Math.round((edge - LEFT) / TICK_ROOM));
  const middle = {'text-anchor': 'middle'};
  const ticks = linearTicks(0, xMax, few).map((v) => label(x(v), GROUND + 16, String(v), middle));
  const text = 'equal split ' + Math.round(equal);
  const fits = x(equal) + 5 + LETTER * text.length < edge + RIGHT;
  return [
    across, ticks, label((LEFT + edge) / 2, HEIGHT - 6, 'minibatch b, samples', middle),
    s('line', {x1: x(equal), x2: x(equal), y1: TOP, y2: GROUND, class: 'fit-equal'}),
    label(x(equal) + (fits ? 5 : -5), GROUND - 6, text, {'text-anchor': fits ? 'start' : 'end'})
  ];
}

/**
 * Where a line leaves the plot.
 * @param {FittedLine} l
 * @param {Scale} scale
 */
function endOf(l, {x, y, xMax, yMax}) {
  const end = Math.min(xMax, (yMax - l.a) / l.k);
  return {node: l.node, x: x(end), y: y(l.a + l.k * end)};
}

/**
 * A node's line with its points.
 * @param {FittedLine} l
 * @param {NodeKey} key
 * @param {Scale} scale
 */
function fitted(l, key, scale) {
  const end = endOf(l, scale);
  const line = s('line', {
    x1: scale.x(0),
    y1: scale.y(l.a),
    x2: end.x,
    y2: end.y,
    class: 'fit-line' + (l.guessed ? ' guessed' : '')
  });
  line.style.color = key.colour(l.node);
  const every = Math.max(1, Math.floor(l.points.length / MOST_POINTS));
  const points = l.points.filter((p, i) => i % every === 0);
  return [line, points.map(([b, t]) => mark(key, l.node, scale.x(b), scale.y(t), 6, true))];
}

/**
 * The lines that are named: all, or of many the fastest and the slowest.
 * @param {FittedLine[]} lines
 * @param {NodeKey} key
 * @param {Scale} scale
 */
function namedOf(lines, key, {xMax}) {
  const order = [...lines].sort((p, q) => p.a + p.k * xMax - q.a - q.k * xMax);
  return key.many ? [order[0], order[order.length - 1]] : lines;
}

/**
 * Names of lines and the time of a step, at the right edge.
 * @param {FittedLine[]} lines
 * @param {NodeKey} key
 * @param {Scale} scale
 * @param {number} step
 */
function names(lines, key, scale, step) {
  const ends = namedOf(lines, key, scale).map((l) => endOf(l, scale));
  const at = spread([...ends.map((e) => e.y), scale.y(step)], 15, TOP + 6, GROUND);
  const named = ends.map((e, i) => {
    const x = Math.min(e.x, scale.edge);
    const text = label(x + NAME, at[i] + 4,
        ended(e.node, Math.floor((scale.edge + RIGHT - x - NAME) / LETTER)), {class: 'fit-name'});
    return [mark(key, e.node, x + 12, at[i], 9), text];
  });
  const last = at[at.length - 1] + 4;
  return [named, label(scale.edge + 6, last, seconds(step), {class: 'fit-strong'})];
}

/**
 * @param {FittedLine[]} lines
 * @param {NodeKey} key
 * @param {number} equal minibatch of an equal split
 * @param {number} step seconds of one step
 * @param {number} width pixels that there are; a narrower drawing than 280 is none
 */
export function fitPlot(lines, key, equal, step, width) {
  const wide = Math.max(LEAST_WIDTH, width);
  const scale = scaleOf(lines, equal, step, wide);
  const {x, y, edge} = scale;
  return s('svg', {
    viewBox: '0 0 ' + wide + ' ' + HEIGHT,
    width: wide,
    height: HEIGHT,
    class: 'fit',
    role: 'img',
    'aria-label': 'computing time of a step by minibatch, for each node'
  },
      ground(scale, equal), lines.map((l) => fitted(l, key, scale)),
      s('line', {x1: LEFT, x2: edge, y1: y(step), y2: y(step), class: 'fit-step'}),
      lines.map((l) => mark(key, l.node, x(l.batch), y(l.a + l.k * l.batch), 12)),
      names(lines, key, scale, step));
}
