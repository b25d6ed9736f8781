/* Mouse and touch on a chart: a drag zooms, a double click resets the zoom, fingers scroll the
   page. */
import {h} from '../elements/dom.js';

/** @typedef {import('./group.js').ChartGroup} ChartGroup */
/** @typedef {import('./chart.js').Chart} Chart */

const LEAST_SHADE = 4;
const LEAST_ZOOM = 8;

/* A drag, from pressing the button to releasing it. It shades the range. */
class Drag {
  /**
   * @param {ChartGroup} group
   * @param {Chart} chart
   * @param {Dygraphs.Graph} graph
   * @param {number} from pixels
   */
  constructor(group, chart, graph, from) {
    this.group = group;
    this.chart = chart;
    this.graph = graph;
    this.from = from;
    this.area = graph.getArea();
    this.left = chart.plot.getBoundingClientRect().left;
    this.shade = h('div', {class: 'zoom-shade'});
    this.onMove = (/** @type {MouseEvent} */ e) => this.move(this.xOf(e));
    this.onUp = (/** @type {MouseEvent} */ e) => this.end(this.xOf(e));
    group.dragging = true;
    window.addEventListener('mousemove', this.onMove);
    window.addEventListener('mouseup', this.onUp);
  }

  /** @param {MouseEvent} e */
  xOf(e) {
    return Math.min(Math.max(e.clientX - this.left, this.area.x), this.area.x + this.area.w);
  }

  /** @param {number} x */
  move(x) {
    this.shade.style.left = Math.min(this.from, x) + 'px';
    this.shade.style.width = Math.abs(x - this.from) + 'px';
    this.shade.style.top = this.area.y + 'px';
    this.shade.style.height = this.area.h + 'px';
    if (!this.shade.isConnected && Math.abs(x - this.from) > LEAST_SHADE) {
      this.chart.place.append(this.shade);
      this.group.hover(null);
    }
  }

  /** @param {number} x */
  end(x) {
    window.removeEventListener('mousemove', this.onMove);
    window.removeEventListener('mouseup', this.onUp);
    this.shade.remove();
    this.group.dragging = false;
    if (Math.abs(x - this.from) > LEAST_ZOOM) {
      const [a, b] = [Math.min(this.from, x), Math.max(this.from, x)];
      this.group.setZoom([this.graph.toDataXCoord(a), this.graph.toDataXCoord(b)]);
    }
  }
}

/**
 * @param {ChartGroup} group
 * @param {Chart} chart
 * @returns {Dygraphs.InteractionModel}
 */
export function dragZoom(group, chart) {
  return {
    mousedown(event, graph, context) {
      if (event.button === 0) {
        context.initializeMouseDown(event, graph, context);
        new Drag(group, chart, graph, context.dragStartX);
      }
    },
    dblclick: () => group.setZoom(null)
  };
}
