/* The numbers of a chart as a table, newest first, and the button that shows it. */
import {fill, h} from '../elements/dom.js';
import {icon} from '../elements/icons.js';

const MOST = 200;
const EVERY_MS = 1000;

export class NumberTable {
  /**
   * @param {string} title
   * @param {() => Page.ChartTable} make
   */
  constructor(title, make) {
    this.title = title;
    this.make = make;
    this.drawnAt = -Infinity;
    this.box = h('div', {
      class: 'chart-table scroll',
      hidden: true,
      tabindex: '0',
      role: 'region',
      'aria-label': 'Numbers of ' + title
    });
    this.button = h('button', {
      type: 'button',
      class: 'btn ghost icon tool',
      'aria-label': 'Numbers of ' + title + ' as a table',
      title: 'Table',
      'aria-pressed': 'false',
      on: {click: () => this.toggle()}
    },
        icon('table'));
  }

  toggle(on = this.box.hidden) {
    this.box.hidden = !on;
    this.button.setAttribute('aria-pressed', String(on));
    if (on) {
      this.draw();
    } else {
      fill(this.box);
    }
  }

  /* Once a second at most, and only while it is shown. */
  update() {
    if (!this.box.hidden && performance.now() - this.drawnAt >= EVERY_MS) {
      this.draw();
    }
  }

  draw() {
    this.drawnAt = performance.now();
    const {heads, rows} = this.make();
    const shown = rows.slice(0, MOST);
    const head = h('tr', null, heads.map((text) => h('th', {class: 'num', scope: 'col'}, text)));
    const body = shown.map((row) => h('tr', null, row.map((v) => h('td', {class: 'num'}, v))));
    fill(this.box,
        h('table', {class: 'dense'},
            h('caption', {class: 'sr', text: this.title + ', newest first'}),
            h('thead', null, head), h('tbody', null, body)),
        rows.length > MOST && h('p', {
          class: 'quiet table-more',
          text: 'The newest ' + MOST + ' of ' + rows.length + ' points.'
        }));
  }
}
