/* What the drawings of a sweep share: an area that is drawn again when its width changes, and that
   scrolls where the drawing is wider than the page. */
import {fill, h, s} from '../../elements/dom.js';
import {scroller} from '../../elements/widgets.js';

export class Plot {
  /**
   * @param {string} title
   * @param {string} note
   * @param {() => SVGElement} draw
   */
  constructor(title, note, draw) {
    this.draw = draw;
    this.note = h('span', {class: 'note', text: note});
    this.stage = scroller(title + ', drawing', null, 'sweep-stage');
    this.node = h('section', {'aria-label': title},
        h('div', {class: 'row-title'}, h('h2', {text: title}), this.note), this.stage);
    this.width = 0;
    this.watch = new ResizeObserver(() => {
      if (this.stage.clientWidth !== this.width) {
        this.update();
      }
    });
    this.watch.observe(this.stage);
  }

  update() {
    this.width = this.stage.clientWidth;
    if (this.width > 0) {
      fill(this.stage, this.draw());
    }
  }

  close() {
    this.watch.disconnect();
  }
}

/**
 * @param {number} width
 * @param {number} height
 * @param {string} label
 * @param {Page.Child[]} content
 */
export function drawing(width, height, label, ...content) {
  return s('svg', {
    viewBox: '0 0 ' + width + ' ' + height,
    width,
    height,
    class: 'sweep-plot',
    role: 'img',
    'aria-label': label
  },
      ...content);
}

/**
 * @param {number} x
 * @param {number} y
 * @param {string} content
 * @param {string} [anchor]
 * @param {string} [cls]
 */
export function text(x, y, content, anchor = 'start', cls = 'lane-tick') {
  return s('text', {x, y, class: cls, 'text-anchor': anchor}, content);
}
