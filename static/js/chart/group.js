/* What the charts of a page share: the x axis and its range, the reading line, marks, zoom, keys, theme. A newcomer
   would get the two ranges wrong: `full` is what there is, `zoom` is what was chosen (null: everything). Events:
   "hover" (x or null), "zoom", "focus". */
import {lastAtOrBefore} from './smooth.js';

export class ChartGroup extends EventTarget {
  constructor() {
    super();
    this.charts = [];
    this.axis = 'step';
    this.full = [0, 1];
    this.zoom = null;
    this.marks = [];
    this.hoverX = null;
    this.interaction = (chart) => this.model(chart);
    this.onTheme = () => requestAnimationFrame(() => this.redraw());
    window.addEventListener('evenstep-theme', this.onTheme);
  }

  add(chart) {
    this.charts.push(chart);
  }

  drop(chart) {
    chart.close();
    this.charts = this.charts.filter((c) => c !== chart);
  }

  close() {
    window.removeEventListener('evenstep-theme', this.onTheme);
    this.charts.forEach((c) => c.close());
    this.charts = [];
  }

  window() {
    return this.zoom || this.full;
  }

  setFull(a, b) {
    this.full = b > a ? [a, b] : [a, a + 1];
  }

  setZoom(range, quiet = false) {
    if (range) {
      const span = Math.max(range[1] - range[0], (this.full[1] - this.full[0]) / 5000);
      const from = Math.max(this.full[0], Math.min(range[0], this.full[1] - span));
      range = [from, Math.min(this.full[1], from + span)];
      if (range[0] <= this.full[0] && range[1] >= this.full[1]) {
        range = null;
      }
    }
    this.zoom = range;
    this.redraw();
    if (!quiet) {
      this.dispatchEvent(new CustomEvent('zoom', {detail: range}));
    }
  }

  redraw() {
    this.charts.forEach((c) => c.redraw());
  }

  hover(x) {
    if (x === this.hoverX) {
      return;
    }
    this.hoverX = x;
    this.charts.forEach((c) => c.showHair(x));
    this.dispatchEvent(new CustomEvent('hover', {detail: x}));
  }

  focusOn(chart) {
    this.focused = chart;
  }

  /* Drag zooms, a double click goes back. Fingers scroll the page. */
  model(chart) {
    return {
      mousedown: (e, g, context) => {
        if (e.button > 0) {
          return;
        }
        context.initializeMouseDown(e, g, context);
        const from = context.dragStartX;
        const box = chart.plot.getBoundingClientRect();
        this.dragging = true;
        const shade = document.createElement('div');
        shade.className = 'zoom-shade';
        const area = g.getArea();
        const to = (event) => Math.min(Math.max(event.clientX - box.left, area.x), area.x + area.w);
        const move = (event) => {
          const x = to(event);
          shade.style.left = Math.min(from, x) + 'px';
          shade.style.width = Math.abs(x - from) + 'px';
          shade.style.top = area.y + 'px';
          shade.style.height = area.h + 'px';
          if (!shade.isConnected && Math.abs(x - from) > 4) {
            chart.place.append(shade);
            this.hover(null);
          }
        };
        const up = (event) => {
          window.removeEventListener('mousemove', move);
          window.removeEventListener('mouseup', up);
          shade.remove();
          this.dragging = false;
          const x = to(event);
          if (Math.abs(x - from) > 8) {
            this.setZoom([g.toDataXCoord(Math.min(from, x)), g.toDataXCoord(Math.max(from, x))]);
          }
        };
        window.addEventListener('mousemove', move);
        window.addEventListener('mouseup', up);
      },
      dblclick: () => this.setZoom(null),
    };
  }

  onKey(e, chart) {
    if (e.ctrlKey || e.metaKey || e.altKey) {
      return;
    }
    const xs = chart.xs();
    const [a, b] = this.window();
    const move = (by) => {
      if (xs.length) {
        const first = Math.max(0, lastAtOrBefore(xs, a - 1e-9) + 1);
        const last = lastAtOrBefore(xs, b);
        const at = this.hoverX === null ? last : lastAtOrBefore(xs, this.hoverX + 1e-9) + by;
        this.hover(xs[Math.min(Math.max(at, first), last)]);
      }
    };
    const zoomBy = (factor) => {
      const mid = this.hoverX === null ? (a + b) / 2 : this.hoverX;
      this.setZoom([mid - (mid - a) * factor, mid + (b - mid) * factor]);
    };
    const keys = {
      ArrowLeft: () => move(e.shiftKey ? -10 : -1),
      ArrowRight: () => move(e.shiftKey ? 10 : 1),
      Home: () => this.hover(xs[0] ?? null),
      End: () => this.hover(xs[xs.length - 1] ?? null),
      '+': () => zoomBy(0.5),
      '=': () => zoomBy(0.5),
      '-': () => zoomBy(2),
      '−': () => zoomBy(2),
      0: () => this.setZoom(null),
      t: () => chart.toggleTable(),
      T: () => chart.toggleTable(),
      Escape: () => {
        this.hover(null);
        if (chart.tableBox && !chart.tableBox.hidden) {
          chart.toggleTable(false);
        } else {
          this.setZoom(null);
        }
      },
    };
    if (keys[e.key]) {
      keys[e.key]();
      e.preventDefault();
      e.stopPropagation();
    }
  }
}
