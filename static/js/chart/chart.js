/* One chart on dygraphs: the library draws axes, lines and zoom; paint.js paints bands, marks,
   gaps and the target below the lines. Everything that charts of a page share (x axis, range,
   reading line, marks) belongs to their ChartGroup (group.js). The library's graph is created as
   soon as the chart has a width. set() takes a Page.ChartData (types/page.d.ts). */
import {h, resolve, say} from '../elements/dom.js';
import {icon} from '../elements/icons.js';

import {xAxis, yAxis} from './axes.js';
import {drawEnds} from './ends.js';
import {NumberTable} from './numbers.js';
import {paintBeneath, paintDot, paintShapes} from './paint.js';
import {nearest} from './smooth.js';

/** @typedef {import('./group.js').ChartGroup} ChartGroup */

const NOTHING = {
  rows: [],
  lines: [],
  range: [0, 1],
  log: false,
  ends: []
};

let prepared = false;
/* Legend, range selector and titles are ours; the library's legend would set styles that the
   Content-Security-Policy refuses. */
function prepare() {
  if (!prepared) {
    const {Axes, Grid} = window.Dygraph.Plugins;
    window.Dygraph.PLUGINS = window.Dygraph.PLUGINS.filter((p) => p === Axes || p === Grid);
    prepared = true;
  }
}

export class Chart {
  /**
   * @param {ChartGroup} group
   * @param {Page.ChartOptions} options
   */
  constructor(group, options) {
    this.group = group;
    this.options = options;
    this.height = options.height || 170;
    /** @type {Page.ChartData & {log: boolean, ends: Page.End[]}} */
    this.data = NOTHING;
    /** @type {Dygraphs.Graph | null} */
    this.graph = null;
    this.width = 0;
    this.drawnHeight = 0;
    this.plot = h('div', {class: 'plot', style: {height: this.height + 'px'}});
    this.hair = h('div', {class: 'hair', hidden: true});
    this.ends = h('div', {class: 'ends', 'aria-hidden': 'true'});
    this.emptyText = h('p', {class: 'empty-text', hidden: true});
    this.note = h('span', {class: 'count'});
    this.subtitle = h('span', {class: 'note', text: options.subtitle || ''});
    this.place = this.makePlace();
    this.table = options.table ? new NumberTable(options.title, options.table) : null;
    this.node = options.compact ? this.place : this.makeBox();
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.plot);
    group.add(this);
  }

  /* The place where the chart is drawn, which takes keys and the pointer. */
  makePlace() {
    const {title, label = title} = this.options;
    const {group} = this;
    return h('div', {
      class: 'chart',
      tabindex: '0',
      role: 'group',
      'aria-label': label +
          '. Left and right arrow keys move the reading line, T shows the numbers as a table.',
      data: {chart: title.toLowerCase().replace(/\W+/g, '-')},
      on: {
        keydown: (e) => group.onKey(e, this),
        pointermove: (e) => this.onMove(e),
        pointerleave: () => group.hover(null),
        blur: () => group.hover(null)
      }
    },
        this.plot, this.hair, this.ends, this.emptyText);
  }

  /* Heading, tools, the place, the table. */
  makeBox() {
    const {title} = this.options;
    /** @type {HTMLButtonElement} */
    const larger = h('button', {
      type: 'button',
      class: 'btn ghost icon tool',
      'aria-label': 'Larger chart of ' + title,
      title: 'Larger',
      'aria-pressed': 'false',
      on: {click: () => this.toggleSize(larger)}
    },
        icon('expand'));
    const tools = h('span', {class: 'tools'}, this.note, this.table?.button, larger);
    const head = h('div', {class: 'row-title'}, h('h2', {text: title}), this.subtitle, tools);
    const box = this.table ? this.table.box
                           : h('div', {class: 'chart-table scroll', hidden: true, tabindex: '-1'});
    return h('div', {class: 'chart-box'}, head, this.place, box);
  }

  close() {
    this.observer.disconnect();
    this.graph?.destroy();
    this.graph = null;
  }

  resize() {
    const width = this.plot.clientWidth;
    const height = this.plot.clientHeight;
    if (width < 80) {
      return;
    }
    if (!this.graph) {
      this.make();
    } else if (width !== this.width || height !== this.drawnHeight) {
      /* sets the gaps beside the plot, which differ on a phone: the library follows the window
       * before this runs, so resize() may find nothing to do. It gets no size, since the library
       * would keep that and the element could not grow again */
      this.graph.updateOptions({...this.graphOptions(), rightGap: this.gap('--ends')});
      this.graph.resize();
    }
    this.width = width;
    this.drawnHeight = height;
    this.finish();
  }

  make() {
    prepare();
    this.graph = new window.Dygraph(this.plot, this.rows(), {
      ...this.graphOptions(),
      labels: this.labels(),
      legend: 'never',
      connectSeparatedPoints: true,
      rightGap: this.gap('--ends'),
      animatedZooms: false,
      pointSize: 2.5, /* of a point without a line, such as a single step */
      highlightCircleSize: 3,
      drawHighlightPointCallback: this.dotPainter(),
      interactionModel: this.group.interaction(this),
      underlayCallback: this.beneathPainter(),
      labelsKMB: false,
      axisLabelFontSize: 11,
      gridLineWidth: 1,
      plotter: [
        window.Dygraph.Plotters.linePlotter,
        (/** @type {Dygraphs.PlotterEvent} */ e) => paintShapes(e, this.lineOf(e.setName))
      ],
    });
  }

  /**
   * @returns {(ctx: CanvasRenderingContext2D, area: Dygraphs.Area, graph: Dygraphs.Graph) => void}
   */
  beneathPainter() {
    return (ctx, area, graph) => {
      const x = (/** @type {number} */ v) => graph.toDomXCoord(v);
      const y = (/** @type {number} */ v) => graph.toDomYCoord(v);
      paintBeneath({ctx, area, x, y}, this.data, this.group);
    };
  }

  dotPainter() {
    /**
     * @param {[Dygraphs.Graph, string, CanvasRenderingContext2D, number, number, string, number]}
     *     at
     */
    return (...at) => {
      const [, name, ctx, x, y, , radius] = at;
      paintDot(ctx, x, y, radius, this.lineOf(name));
    };
  }

  /** @param {string} label */
  lineOf(label) {
    return this.data.lines.find((l) => l.label === label);
  }

  /** @param {string} name of a variable that is a length in pixels */
  gap(name) {
    return parseFloat(getComputedStyle(this.place).getPropertyValue(name)) || 0;
  }

  labels() {
    return ['x', ...this.data.lines.map((l) => l.label)];
  }

  /** @returns {Page.ChartRow[]} */
  rows() {
    const none = [[this.group.window()[0], ...this.data.lines.map(() => null)]];
    return this.data.rows.length ? this.data.rows : none;
  }

  /* The options that may change while the graph lives. */
  graphOptions() {
    const series = Object.fromEntries(this.data.lines.map((line) => [line.label, {
      color: resolve(line.colour),
      strokeWidth: line.width || 2,
      strokePattern: line.dash || null,
      stepPlot: Boolean(line.step),
      highlightCircleSize: line.dot === false ? 0 : 3
    }]));
    return {
      series,
      dateWindow: this.group.window(),
      valueRange: this.data.range,
      logscale: this.data.log,
      axes: {
        x: xAxis(this.group, this.options.axis !== false),
        y: yAxis(() => this.data, this.options, this.gap('--gutter'))
      },
    };
  }

  /** @param {Page.ChartData} data */
  set(data) {
    const before = this.labels().join('|') + this.data.log;
    this.data = {...NOTHING, ...data, log: Boolean(data.log), ends: data.ends || []};
    if (data.note !== undefined) {
      say(this.note, data.note);
    }
    if (data.subtitle !== undefined) {
      say(this.subtitle, data.subtitle);
    }
    this.place.dataset.points = String(this.data.rows.length);
    this.emptyText.hidden = !data.empty;
    this.emptyText.textContent = data.empty || '';
    if (this.graph && before !== this.labels().join('|') + this.data.log) {
      this.graph.destroy();
      this.make();
    } else if (this.graph) {
      this.graph.updateOptions({...this.graphOptions(), file: this.rows(), labels: this.labels()});
    }
    this.finish();
    this.table?.update();
  }

  /* After a change of range or theme: the same data again. */
  redraw() {
    if (this.graph) {
      this.graph.updateOptions(this.graphOptions());
      this.finish();
    }
  }

  finish() {
    if (this.graph) {
      drawEnds(this.ends, this.graph, this.data, this.options.compact ? 11 : 13);
      this.showHair(this.group.hoverX);
    }
  }

  /** @param {PointerEvent} e */
  onMove(e) {
    if (!this.graph || this.group.dragging) {
      return;
    }
    const area = this.graph.getArea();
    const px = e.clientX - this.plot.getBoundingClientRect().left;
    if (px < area.x - 4 || px > area.x + area.w + 4) {
      this.group.hover(null);
    } else {
      this.group.hover(this.graph.toDataXCoord(Math.min(Math.max(px, area.x), area.x + area.w)));
    }
  }

  xs() {
    return this.data.rows.map((r) => Number(r[0]));
  }

  /**
   * The reading line and the dots at x.
   * @param {number | null} x
   */
  showHair(x) {
    if (x === null || !this.graph || this.data.rows.length === 0) {
      if (!this.hair.hidden) {
        this.hair.hidden = true;
        this.graph?.clearSelection();
      }
      return;
    }
    const area = this.graph.getArea();
    const px = this.graph.toDomXCoord(x);
    this.hair.hidden = px < area.x - 1 || px > area.x + area.w + 1;
    if (!this.hair.hidden) {
      this.hair.style.left = px + 'px';
      this.hair.style.top = area.y + 'px';
      this.hair.style.height = area.h + 'px';
      this.graph.setSelection(nearest(this.xs(), x));
    }
  }

  /** @param {boolean} [on] */
  toggleTable(on) {
    this.table?.toggle(on);
  }

  get tableShown() {
    return Boolean(this.table && !this.table.box.hidden);
  }

  /** @param {HTMLElement} button */
  toggleSize(button) {
    const large = button.getAttribute('aria-pressed') !== 'true';
    button.setAttribute('aria-pressed', String(large));
    this.plot.style.height = (large ? Math.round(this.height * 2) : this.height) + 'px';
  }
}
