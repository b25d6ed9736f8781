/* Paints what a chart shows besides its lines, on the library's own canvas. Each painting reads
   the colours from the CSS variables, so a change of theme needs only a repaint. */
import {cssVar, resolve} from '../elements/dom.js';
import {drawShape} from '../elements/icons.js';

import {paintLevels} from './levels.js';

/** @typedef {{marks: Page.Mark[], faint: boolean}} Shared */

/**
 * Everything beneath the lines.
 * @param {Page.Canvas} view
 * @param {Page.ChartData} data
 * @param {Shared} shared what the charts of a page have in common
 */
export function paintBeneath(view, data, {marks, faint}) {
  const {ctx, area} = view;
  ctx.save();
  ctx.beginPath();
  ctx.rect(area.x, area.y, area.w, area.h);
  ctx.clip();
  ctx.globalAlpha = faint ? 0.45 : 1;
  paintGaps(view, data.gaps);
  paintArea(view, data.area);
  for (const band of [data.band || []].flat()) {
    paintBand(view, band);
  }
  paintLevels(view, data, marks);
  paintMarks(view, marks);
  ctx.restore();
}

/**
 * Paints the range of each bucket, its mean as a thin line, and a needle where a maximum is far
 * above its neighbours.
 * @param {Page.Canvas} view
 * @param {Page.Band} band
 */
function paintBand(view, band) {
  const {ctx} = view;
  const alpha = ctx.globalAlpha;
  ctx.fillStyle = ctx.strokeStyle = resolve(band.colour || 'var(--ink)');
  ctx.globalAlpha = alpha * (parseFloat(cssVar('--band')) || 0.16);
  paintSpread(view, band);
  if (band.line !== false) {
    ctx.globalAlpha = alpha * 0.34;
    paintMean(view, band);
  }
  ctx.globalAlpha = alpha * 0.8;
  paintNeedles(view, band);
  ctx.globalAlpha = alpha;
}

/**
 * A closed area for each run of buckets that have values.
 * @param {Page.Canvas} view
 * @param {Page.Band} band
 */
function paintSpread({ctx, x, y}, {x: xs, min, max}) {
  const n = xs.length;
  for (let a = 0; a < n;) {
    while (a < n && !Number.isFinite(max[a])) {
      a++;
    }
    let b = a;
    while (b < n && Number.isFinite(max[b]) && Number.isFinite(min[b])) {
      b++;
    }
    if (b > a) {
      ctx.beginPath();
      for (let i = a; i < b; i++) {
        ctx.lineTo(x(xs[i]), y(max[i]));
      }
      for (let i = b - 1; i >= a; i--) {
        ctx.lineTo(x(xs[i]), y(min[i]));
      }
      ctx.closePath();
      ctx.fill();
    }
    a = b > a ? b : a + 1;
  }
}

/**
 * @param {Page.Canvas} view
 * @param {Page.Band} band
 */
function paintMean({ctx, x, y}, {x: xs, mean}) {
  ctx.lineWidth = 1;
  ctx.beginPath();
  let pen = false;
  for (let i = 0; i < xs.length; i++) {
    if (Number.isFinite(mean[i])) {
      ctx[pen ? 'lineTo' : 'moveTo'](x(xs[i]), y(mean[i]));
      pen = true;
    } else {
      pen = false;
    }
  }
  ctx.stroke();
}

/**
 * @param {Page.Canvas} view
 * @param {Page.Band} band
 */
function paintNeedles({ctx, x, y}, {x: xs, max, mean}) {
  ctx.lineWidth = 1.25;
  ctx.beginPath();
  for (let i = 1; i + 1 < xs.length; i++) {
    const around = Math.max(max[i - 1], max[i + 1]);
    if (max[i] > mean[i] * 4 / 3 && max[i] > around * 1.5) {
      ctx.moveTo(x(xs[i]), y(mean[i]));
      ctx.lineTo(x(xs[i]), y(max[i]));
    }
  }
  ctx.stroke();
}

/**
 * Between two lines: the time that is not spent computing.
 * @param {Page.Canvas} view
 * @param {Page.Area} [area]
 */
function paintArea({ctx, x, y}, area) {
  if (!area || area.x.length < 2) {
    return;
  }
  const alpha = ctx.globalAlpha;
  ctx.globalAlpha = alpha * 0.3;
  ctx.fillStyle = resolve(area.colour);
  ctx.beginPath();
  area.x.forEach((v, i) => ctx.lineTo(x(v), y(area.top[i])));
  for (let i = area.x.length - 1; i >= 0; i--) {
    ctx.lineTo(x(area.x[i]), y(Math.min(area.bottom[i], area.top[i])));
  }
  ctx.closePath();
  ctx.fill();
  ctx.globalAlpha = alpha;
}

/** @type {{[kind: string]: [string, number[], number]}} colour, dashes, width */
const MARKS = {
  change: ['var(--mark)', [3, 3], 1],
  lost: ['var(--bad)', [], 1.25],
  left: ['var(--bad)', [], 1.25],
  restart: ['var(--bad)', [], 1.25],
  failed: ['var(--bad)', [], 1.25],
  resume: ['var(--mark)', [3, 3], 1],
  resize: ['var(--mark)', [], 1],
  crash: ['var(--warn)', [], 1.25],
  rate: ['var(--mark)', [1, 3], 1]
};

/**
 * A mark is one straight line down the page: every chart paints it at the same x. Checkpoints are
 * ticks on the base line.
 * @param {Page.Canvas} view
 * @param {Page.Mark[]} [marks]
 */
function paintMarks({ctx, area, x}, marks = []) {
  for (const mark of marks) {
    const at = Math.round(x(mark.x)) + 0.5;
    if (at < area.x || at > area.x + area.w) {
      continue;
    }
    ctx.beginPath();
    if (mark.kind === 'checkpoint') {
      ctx.strokeStyle = cssVar('--mark');
      ctx.lineWidth = 1;
      ctx.moveTo(at, area.y + area.h - 4);
      ctx.lineTo(at, area.y + area.h);
    } else {
      const [colour, dash, width] = MARKS[mark.kind];
      ctx.strokeStyle = resolve(colour);
      ctx.lineWidth = width;
      ctx.setLineDash(dash);
      ctx.moveTo(at, area.y);
      ctx.lineTo(at, area.y + area.h);
    }
    ctx.stroke();
    ctx.setLineDash([]);
  }
}

/**
 * Paints ranges without data: hatched, with their length as text. No line crosses them.
 * @param {Page.Canvas} view
 * @param {Page.Gap[]} [gaps]
 */
function paintGaps({ctx, area, x}, gaps = []) {
  ctx.strokeStyle = cssVar('--ghost');
  ctx.lineWidth = 1;
  for (const gap of gaps) {
    const a = Math.max(area.x, x(gap.from));
    const b = Math.min(area.x + area.w, x(gap.to));
    if (b - a < 2) {
      continue;
    }
    ctx.save();
    ctx.beginPath();
    ctx.rect(a, area.y, b - a, area.h);
    ctx.clip();
    ctx.beginPath();
    for (let at = a - area.h; at < b; at += 5) {
      ctx.moveTo(at, area.y + area.h);
      ctx.lineTo(at + area.h, area.y);
    }
    ctx.stroke();
    ctx.restore();
    if (gap.text) {
      ctx.fillStyle = cssVar('--ink-3');
      ctx.font = '11px ' + getComputedStyle(document.body).fontFamily;
      ctx.fillText(gap.text, b + 4, area.y + 10);
    }
  }
}

/**
 * The shape of a line at its points, not closer than six pixels.
 * @param {Dygraphs.PlotterEvent} e
 * @param {Page.Line | undefined} line
 */
export function paintShapes(e, line) {
  if (!line?.shape) {
    return;
  }
  const ctx = e.drawingContext;
  ctx.fillStyle = e.color;
  let last = -Infinity;
  for (const p of e.points) {
    if (Number.isFinite(p.canvasy) && p.canvasx - last > 6) {
      drawShape(ctx, line.shape, p.canvasx, p.canvasy, line.shapeSize || 4);
      last = p.canvasx;
    }
  }
}

/**
 * The dot of a line under the reading line.
 * @param {CanvasRenderingContext2D} ctx
 * @param {number} x
 * @param {number} y
 * @param {number} radius
 * @param {Page.Line | undefined} line
 */
export function paintDot(ctx, x, y, radius, line) {
  if (line && line.dot !== false) {
    ctx.fillStyle = resolve(line.colour);
    ctx.strokeStyle = cssVar('--surface');
    ctx.lineWidth = 1.5;
    ctx.beginPath();
    ctx.arc(x, y, radius + 0.5, 0, 2 * Math.PI);
    ctx.fill();
    ctx.stroke();
  }
}
