/* Horizontal levels of a chart with their labels (an equal split, a target), on the library's own
 * canvas beneath the lines. A label is placed where no line or mark crosses it, if the level has
 * such a place. labelPlace() is pure, tested in tests/browser/test_pure.py. */
import {cssVar, resolve} from '../elements/dom.js';

/** @typedef {[number, number]} Point pixels */
/** @typedef {{left: number, right: number, top: number, bottom: number}} Box */

/** @type {{[style: string]: [string, number[]]}} colour, dashes */
const LEVELS = {
  ghost: ['var(--ghost)', [2, 2]],
  target: ['var(--ok)', [8, 3, 2, 3]]
};

/* Pixels: from the level up and down to the words' base line, above and below that, to the sides.
 */
const ABOVE = 5;
const BELOW = 13;
const ASCENT = 10;
const DESCENT = 3;
const ASIDE = 12;
const LINE_COST = 100;

/**
 * Whether the line between two points runs through a box.
 * @param {Point} a the one to the left
 * @param {Point} b
 * @param {Box} box
 */
function crosses(a, b, {left, right, top, bottom}) {
  if (!(b[0] >= left && a[0] <= right)) {
    return false;
  }
  const slope = b[0] > a[0] ? (b[1] - a[1]) / (b[0] - a[0]) : 0;
  const from = a[0] < left ? a[1] + slope * (left - a[0]) : a[1];
  const to = b[0] > right ? a[1] + slope * (right - a[0]) : b[1];
  return Math.max(from, to) >= top && Math.min(from, to) <= bottom;
}

/**
 * How many lines and marks run through a box; lines count more.
 * @param {Box} box
 * @param {Point[][]} curves
 * @param {number[]} marks
 */
function cost(box, curves, marks) {
  const lines = curves.filter((c) => c.some((p, i) => i > 0 && crosses(c[i - 1], p, box)));
  return LINE_COST * lines.length + marks.filter((m) => m >= box.left && m <= box.right).length;
}

/**
 * Where the label of a level begins, and its base line.
 * @param {Dygraphs.Area} area
 * @param {number} at the level
 * @param {number} width of the words
 * @param {Point[][]} curves from left to right
 * @param {number[]} marks
 * @returns {Point}
 */
export function labelPlace(area, at, width, curves, marks) {
  /** @type {Point} */
  let best = [area.x + ASIDE, at - ABOVE - ASCENT < area.y ? at + BELOW : at - ABOVE];
  let least = Infinity;
  const last = area.x + area.w - width - ASIDE;
  for (const base of [at - ABOVE, at + BELOW]) {
    const [top, bottom] = [base - ASCENT, base + DESCENT];
    const inside = top >= area.y && bottom <= area.y + area.h;
    for (let x = area.x + ASIDE; inside && x <= last && least > 0; x += Math.max(8, width / 4)) {
      const box = {left: x - 4, right: x + width + 4, top, bottom};
      const taken = cost(box, curves, marks);
      if (taken < least) {
        least = taken;
        best = [x, base];
      }
    }
  }
  return best;
}

/**
 * The lines of a chart in pixels, with the corners of those that go in steps.
 * @param {Page.Canvas} view
 * @param {Page.ChartData} data
 * @returns {Point[][]}
 */
function curvesOf({x, y}, {rows, lines}) {
  return lines.map((line, i) => {
    /** @type {Point[]} */
    const points = [];
    for (const row of rows) {
      const value = row[i + 1];
      if (typeof value !== 'number') {
        continue;
      }
      const [px, py] = [x(Number(row[0])), y(value)];
      if (line.step && points.length) {
        points.push([px, points[points.length - 1][1]]);
      }
      points.push([px, py]);
    }
    return points;
  });
}

/**
 * @param {Page.Canvas} view
 * @param {Page.ChartData} data
 * @param {Page.Mark[]} [marks]
 */
export function paintLevels(view, data, marks = []) {
  const {ctx, area, x, y} = view;
  for (const level of data.hlines || []) {
    const [colour, dash] = LEVELS[level.style];
    const at = Math.round(y(level.y)) + 0.5;
    if (!Number.isFinite(at) || at < area.y || at > area.y + area.h) {
      continue;
    }
    ctx.strokeStyle = ctx.fillStyle = resolve(colour);
    ctx.lineWidth = 1.25;
    ctx.setLineDash(dash);
    ctx.beginPath();
    ctx.moveTo(area.x, at);
    ctx.lineTo(area.x + area.w, at);
    ctx.stroke();
    ctx.setLineDash([]);
    if (level.text) {
      ctx.font = '11px ' + getComputedStyle(document.body).fontFamily;
      ctx.fillStyle = level.style === 'ghost' ? cssVar('--ink-3') : ctx.fillStyle;
      const place = labelPlace(area, at, ctx.measureText(level.text).width, curvesOf(view, data),
          marks.map((m) => x(m.x)));
      ctx.fillText(level.text, ...place);
    }
  }
}
