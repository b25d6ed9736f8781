/* Icons and the shapes of nodes, as paths in a box of 16. A shape is the second cue beside the
 * colour, everywhere. */
import {s} from './dom.js';

/** @type {{[name: string]: string}} */
const strokes = {
  logo: 'M1 2.5h10M4 5.8h7M2.5 9.1h8.5M6 12.4h5M14 1v14',
  plus: 'M8 3v10M3 8h10',
  check: 'M3 8.5l3.2 3.2L13 4.8',
  cross: 'M4 4l8 8M12 4l-8 8',
  clock: 'M8 4.5V8l2.4 1.6M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2z',
  pause: 'M5.5 3.5v9M10.5 3.5v9',
  stop: 'M4 4h8v8H4z',
  warn: 'M8 2.2l6.3 11.3H1.7zM8 6.5v3.2M8 11.2v.6',
  down: 'M8 2.5v7M4.8 6.6L8 9.8l3.2-3.2M3 13h10',
  swap: 'M3 5.5h9.5M10 3l2.5 2.5L10 8M13 10.8H3.5M6 8.3l-2.5 2.5L6 13.3',
  rate: 'M2 4.5h4.5v7H14',
  tick: 'M8 5v6',
  table: 'M2 3h12v10H2zM2 6.3h12M2 9.6h12M6.5 6.3V13',
  expand: 'M9.5 2.5h4v4M13.5 2.5L9.5 6.5M6.5 13.5h-4v-4M2.5 13.5l4-4',
  sun: 'M8 5.2a2.8 2.8 0 1 1 0 5.6 2.8 2.8 0 0 1 0-5.6z' +
      'M8 1.2v1.6M8 13.2v1.6M1.2 8h1.6M13.2 8h1.6' +
      'M3.2 3.2l1.1 1.1M11.7 11.7l1.1 1.1M12.8 3.2l-1.1 1.1M4.3 11.7l-1.1 1.1',
  moon: 'M13 9.6A5.6 5.6 0 0 1 6.4 3 5.4 5.4 0 1 0 13 9.6z',
  right: 'M6 3.5L10.5 8 6 12.5',
  up: 'M3.5 10L8 5.5l4.5 4.5',
  fall: 'M3.5 6L8 10.5 12.5 6',
  menu: 'M2.5 4.5h11M2.5 8h11M2.5 11.5h11',
  half: 'M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2zM8 2v12',
};

/**
 * A drawing of strokes in the colour of the text around it.
 * @param {number} size
 * @param {Page.Props} props
 * @param {Element[]} paths
 */
function drawing(size, props, ...paths) {
  const box = {viewBox: '0 0 16 16', width: size, height: size, 'aria-hidden': 'true'};
  return s('svg', {...box, fill: 'none', stroke: 'currentColor', ...props}, ...paths);
}

/**
 * @param {string} name
 * @param {number} [size]
 */
export function icon(name, size = 14) {
  if (name === 'ring') { /* running; still, because a page that spins is not read */
    return drawing(size, {'stroke-width': 2}, s('circle', {cx: 8, cy: 8, r: 5.5, opacity: .3}),
        s('path', {d: 'M8 2.5a5.5 5.5 0 0 1 5.5 5.5', 'stroke-linecap': 'round'}));
  }
  const logo = name === 'logo';
  return drawing(size, {
    'stroke-width': logo ? 2 : 1.6,
    'stroke-linejoin': 'round',
    'stroke-linecap': logo ? 'butt' : 'round'
  },
      s('path', {d: strokes[name]}));
}

export const SHAPES =
    ['circle', 'square', 'triangle', 'diamond', 'down', 'plus', 'hexagon', 'cross'];
/** @type {{[name: string]: string}} */
const shapePaths = {
  circle: 'M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11z',
  square: 'M3 3h10v10H3z',
  triangle: 'M8 2l6.2 11.5H1.8z',
  diamond: 'M8 1l7 7-7 7-7-7z',
  down: 'M1.8 2.5h12.4L8 14z',
  plus: 'M5.8 1.8h4.4v4h4v4.4h-4v4H5.8v-4h-4V5.8h4z',
  hexagon: 'M8 1.2l5.9 3.4v6.8L8 14.8l-5.9-3.4V4.6z',
  cross: 'M4 1.6L8 5.6l4-4L14.4 4l-4 4 4 4-2.4 2.4-4-4-4 4L1.6 12l4-4-4-4z',
  dot: 'M8 5a3 3 0 1 1 0 6 3 3 0 0 1 0-6z',
};

/**
 * @param {string} name
 * @param {number} [size]
 */
export function shape(name, size = 10) {
  return s('svg', {
    viewBox: '0 0 16 16',
    width: size,
    height: size,
    'aria-hidden': 'true',
    fill: 'currentColor',
    class: 'shape'
  },
      s('path', {d: shapePaths[name]}));
}

/** @type {{[name: string]: Path2D}} */
const canvasPaths = {};

/**
 * The same shapes on a canvas, centred at x, y with radius r.
 * @param {CanvasRenderingContext2D} ctx
 * @param {string} name
 * @param {number} x
 * @param {number} y
 * @param {number} r
 */
export function drawShape(ctx, name, x, y, r) {
  canvasPaths[name] = canvasPaths[name] || new Path2D(shapePaths[name]);
  ctx.save();
  ctx.translate(x - r, y - r);
  ctx.scale(r / 8, r / 8);
  ctx.fill(canvasPaths[name]);
  ctx.restore();
}
