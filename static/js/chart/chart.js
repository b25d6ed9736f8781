/* One chart on dygraphs: the library draws axes, lines and zoom; bands, marks, gaps and the target are painted by us
   beneath the lines. Everything that charts of a page share (x axis, range, hairline, marks) belongs to their
   ChartGroup (group.js). The chart is made when its place first has a width.

   chart.set({rows, lines, range, log, band, hlines, empty, note, ends}) — rows [[x, y1, y2, …]]; lines [{label, colour,
   width, dash, step, shape}] in the order of the columns; band {x, min, max, mean, colour}; hlines [{y, style, text}];
   ends [{y, text, bold, colour, mark}] at the right edge. */
import {cssVar, fill, h, s} from '../dom.js';
import {drawShape, icon} from '../icons.js';

import {paintArea, paintBand, paintGaps, paintLevels, paintMarks} from './paint.js';
import {linearTicks, logTicks, spread, xLabel, xTicks} from './scale.js';
import {nearest} from './smooth.js';

const PLUGINS = () =>
    window.Dygraph.PLUGINS.filter((p) => p === window.Dygraph.Plugins.Axes || p === window.Dygraph.Plugins.Grid);
let prepared = false;
function prepare() {
  if (!prepared) { /* legend, range selector and titles are ours; the library's legend would set styles that the CSP
                      refuses */
    window.Dygraph.PLUGINS = PLUGINS();
    prepared = true;
  }
}

export function resolve(colour) {
  return colour.startsWith('var(') ? cssVar(colour.slice(4, -1)) : colour;
}

export class Chart {
  constructor(group, {
    title,
    subtitle = '',
    height = 170,
    format,
    yTicks = 5,
    axis = true,
    table = null,
    label = title,
    compact = false
  }) {
    Object.assign(this, {group, format, yTicks, axis, makeTable: table, compact, title});
    this.data = {rows: [], lines: [], range: [0, 1], log: false, ends: []};
    this.plot = h('div', {class: 'plot'});
    this.plot.style.height = height + 'px';
    this.height = height;
    this.hair = h('div', {class: 'hair', hidden: true});
    this.ends = h('div', {class: 'ends', 'aria-hidden': 'true'});
    this.emptyText = h('p', {class: 'empty-text', hidden: true});
    this.note = h('span', {class: 'count'});
    this.subtitle = h('span', {class: 'note', text: subtitle});
    this.place =
        h('div', {
          class: 'chart',
          tabindex: '0',
          role: 'group',
          'aria-label': label + '. Left and right arrow keys move the reading line, T shows the numbers as a table.',
          data: {chart: title.toLowerCase().replace(/\W+/g, '-')},
          on: {
            keydown: (e) => group.onKey(e, this),
            pointermove: (e) => this.onMove(e),
            pointerleave: () => group.hover(null),
            focus: () => group.focusOn(this),
            blur: () => group.hover(null)
          }
        },
          this.plot, this.hair, this.ends, this.emptyText);
    this.tableBox = h('div', {class: 'chart-table scroll', hidden: true, tabindex: '-1'});
    this.tableButton = table &&
        h('button', {
                      type: 'button',
                      class: 'btn ghost icon tool',
                      'aria-label': 'Numbers of ' + title + ' as a table',
                      title: 'Table',
                      'aria-pressed': 'false',
                      on: {click: () => this.toggleTable()}
                       },
          icon('table'));
    this.expandButton = !compact &&
        h('button', {
          type: 'button',
          class: 'btn ghost icon tool',
          'aria-label': 'Larger chart of ' + title,
          title: 'Larger',
          'aria-pressed': 'false',
          on: {click: () => this.toggleSize()}
        },
          icon('expand'));
    this.head =
        h('div', {class: 'row-title'}, h('h2', {text: title}), this.subtitle,
          h('span', {class: 'tools'}, this.note, this.tableButton, this.expandButton));
    this.node = compact ? this.place : h('div', {class: 'chart-box'}, this.head, this.place, this.tableBox);
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.plot);
    group.add(this);
  }

  close() {
    this.observer.disconnect();
    this.g?.destroy();
    this.g = null;
  }

  resize() {
    const width = this.plot.clientWidth;
    if (width < 80) {
      return;
    }
    if (!this.g) {
      this.make();
    } else if (width !== this.width || this.plot.clientHeight !== this.drawnHeight) {
      this.g.resize(width, this.plot.clientHeight);
    }
    this.width = width;
    this.drawnHeight = this.plot.clientHeight;
    this.finish();
  }

  make() {
    prepare();
    const {interaction} = this.group;
    this.g = new window.Dygraph(this.plot, this.rows(), {
      ...this.options(),
      labels: this.labels(),
      legend: 'never',
      connectSeparatedPoints: true,
      rightGap: this.gap('--ends'),
      animatedZooms: false,
      highlightCircleSize: 3,
      drawHighlightPointCallback: (g, name, ctx, x, y, colour, r, row) =>
          this.paintDot(ctx, x, y, name, colour, r, row),
      interactionModel: interaction(this),
      underlayCallback: (ctx, area, g) => this.paint(ctx, area, g),
      labelsKMB: false,
      axisLabelFontSize: 11,
      gridLineWidth: 1,
      plotter: [window.Dygraph.Plotters.linePlotter, (e) => this.paintShapes(e)],
    });
  }

  gap(name) {
    return parseFloat(getComputedStyle(this.place).getPropertyValue(name)) || 0;
  }

  labels() {
    return ['x', ...this.data.lines.map((l) => l.label)];
  }

  rows() {
    return this.data.rows.length ? this.data.rows : [[this.group.window()[0], ...this.data.lines.map(() => null)]];
  }

  options() {
    const series = {};
    for (const line of this.data.lines) {
      series[line.label] = {
        color: resolve(line.colour),
        strokeWidth: line.width || 2,
        strokePattern: line.dash || null,
        stepPlot: Boolean(line.step),
        highlightCircleSize: line.dot === false ? 0 : 3
      };
    }
    const gutter = this.gap('--gutter');
    const {log, range} = this.data;
    return {
      series,
      dateWindow: this.group.window(),
      valueRange: range,
      logscale: log,
      axes: {
        x: {
          drawGrid: false,
          drawAxis: this.axis,
          axisLineColor: cssVar('--line-strong'),
          axisLabelWidth: 60,
          axisTickSize: 4,
          ticker: (a, b, px) => {
            const most = Math.max(2, Math.floor(px / 90));
            return xTicks(this.group.axis, a, b, Math.min(8, most))
                .map((v) => ({v, label: xLabel(this.group.axis, v, b - a)}));
          }
        },
        y: {
          drawGrid: true,
          gridLineColor: cssVar('--grid'),
          axisLineColor: 'transparent',
          axisLabelWidth: gutter - 8,
          axisTickSize: 4,
          ticker: (a, b) => {
            const ticks = this.data.ticks || (log ? logTicks(a, b) : linearTicks(a, b, this.yTicks));
            return ticks.map((v) => ({v, label: this.format(v)}));
          }
        },
      },
    };
  }

  set(data) {
    const labels = this.labels().join('|');
    const log = this.data.log;
    this.data = {log: false, range: [0, 1], ends: [], lines: [], rows: [], ...data};
    if (data.note !== undefined && this.note.textContent !== data.note) {
      this.note.textContent = data.note;
    }
    if (data.subtitle !== undefined && this.subtitle.textContent !== data.subtitle) {
      this.subtitle.textContent = data.subtitle;
    }
    this.place.dataset.points = this.data.rows.length;
    this.emptyText.hidden = !data.empty;
    this.emptyText.textContent = data.empty || '';
    if (this.g && (labels !== this.labels().join('|') || log !== this.data.log)) {
      this.g.destroy();
      this.g = null;
      this.make();
    } else if (this.g) {
      this.g.updateOptions({...this.options(), file: this.rows(), labels: this.labels()});
    }
    this.finish();
    if (!this.tableBox.hidden) {
      this.drawTable();
    }
  }

  /* After a change of range or theme: the same data again. */
  redraw() {
    if (this.g) {
      this.g.updateOptions(this.options());
      this.finish();
    }
  }

  finish() {
    if (this.g) {
      this.drawEnds();
      this.showHair(this.group.hoverX);
    }
  }

  paint(ctx, area, g) {
    const view = {ctx, area, x: (v) => g.toDomXCoord(v), y: (v) => g.toDomYCoord(v)};
    ctx.save();
    ctx.beginPath();
    ctx.rect(area.x, area.y, area.w, area.h);
    ctx.clip();
    ctx.globalAlpha = this.group.faint ? 0.45 : 1;
    paintGaps(view, this.data.gaps);
    paintArea(view, this.data.area);
    for (const band of [].concat(this.data.band || [])) {
      paintBand(view, band);
    }
    paintLevels(view, this.data.hlines);
    paintMarks(view, this.group.marks);
    ctx.restore();
  }

  paintShapes(e) {
    const line = this.data.lines.find((l) => l.label === e.setName);
    if (!line || !line.shape) {
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

  paintDot(ctx, x, y, name, colour, r) {
    const line = this.data.lines.find((l) => l.label === name);
    if (line && line.dot !== false) {
      ctx.fillStyle = resolve(line.colour);
      ctx.strokeStyle = cssVar('--surface');
      ctx.lineWidth = 1.5;
      ctx.beginPath();
      ctx.arc(x, y, r + 0.5, 0, 2 * Math.PI);
      ctx.fill();
      ctx.stroke();
    }
  }

  drawEnds() {
    const {ends, range} = this.data;
    const area = this.g.getArea();
    const wanted = ends.map((e) => this.g.toDomYCoord(Math.min(Math.max(e.y, range[0]), range[1])));
    const gap = this.compact ? 11 : 13;
    const at = spread(wanted.map((v) => (Number.isFinite(v) ? v : area.y)), gap, area.y + 4, area.y + area.h - 2);
    while (this.ends.children.length < ends.length) {
      this.ends.append(h('span'));
    }
    while (this.ends.children.length > ends.length) {
      this.ends.lastChild.remove();
    }
    ends.forEach((e, i) => {
      const node = this.ends.children[i];
      const key = (e.mark || '') + '|' + e.text;
      if (node.dataset.key !== key) {
        node.dataset.key = key;
        fill(node, e.icon ? e.icon() : null, e.text);
      }
      node.className = (e.bold ? 'bold' : '') + (e.quiet ? ' quiet' : '');
      node.style.top = at[i] + 'px';
      node.style.left = (area.x + area.w + 6) + 'px';
    });
  }

  onMove(e) {
    if (!this.g || this.group.dragging || e.pointerType === 'touch' && e.type !== 'pointermove') {
      return;
    }
    const box = this.plot.getBoundingClientRect();
    const area = this.g.getArea();
    const px = e.clientX - box.left;
    if (px < area.x - 4 || px > area.x + area.w + 4) {
      this.group.hover(null);
    } else {
      this.group.hover(this.g.toDataXCoord(Math.min(Math.max(px, area.x), area.x + area.w)));
    }
  }

  xs() {
    return this.data.rows.map((r) => r[0]);
  }

  showHair(x) {
    const rows = this.data.rows;
    if (x === null || x === undefined || !this.g || rows.length === 0) {
      if (!this.hair.hidden) {
        this.hair.hidden = true;
        this.g?.clearSelection();
      }
      return;
    }
    const area = this.g.getArea();
    const px = this.g.toDomXCoord(x);
    if (px < area.x - 1 || px > area.x + area.w + 1) {
      this.hair.hidden = true;
      return;
    }
    this.hair.hidden = false;
    this.hair.style.left = px + 'px';
    this.hair.style.top = area.y + 'px';
    this.hair.style.height = area.h + 'px';
    this.g.setSelection(nearest(this.xs(), x));
  }

  toggleTable(on = this.tableBox.hidden) {
    if (!this.makeTable) {
      return;
    }
    this.tableBox.hidden = !on;
    this.tableButton.setAttribute('aria-pressed', String(on));
    if (on) {
      this.drawTable();
    } else {
      fill(this.tableBox);
    }
  }

  drawTable() {
    const {heads, rows} = this.makeTable();
    if (performance.now() - (this.tableAt || 0) < 1000 && this.tableBox.firstChild) {
      return;
    }
    this.tableAt = performance.now();
    const shown = rows.slice(0, 200);
    fill(
        this.tableBox,
        h('table', {class: 'dense'}, h('caption', {class: 'sr', text: this.title + ', newest first'}),
          h('thead', null, h('tr', null, heads.map((head) => h('th', {class: 'num', scope: 'col'}, head)))),
          h('tbody', null, shown.map((r) => h('tr', null, r.map((v) => h('td', {class: 'num', text: v})))))),
        rows.length > shown.length &&
            h('p',
              {class: 'quiet table-more', text: 'The newest ' + shown.length + ' of ' + rows.length + ' points.'}));
  }

  toggleSize() {
    const large = this.expandButton.getAttribute('aria-pressed') !== 'true';
    this.expandButton.setAttribute('aria-pressed', String(large));
    this.plot.style.height = (large ? Math.round(this.height * 2) : this.height) + 'px';
  }
}
