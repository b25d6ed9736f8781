/* One folded row: a title with a note, and a body that is drawn once it is opened. */
import {h} from '../../../elements/dom.js';
import {icon} from '../../../elements/icons.js';

export class Fold {
  /**
   * @param {string} id
   * @param {string} title
   * @param {() => void} onOpen
   */
  constructor(id, title, onOpen) {
    this.note = h('span', {class: 'note'});
    this.body = h('div', {class: 'fold-body', id: id + '-body'});
    const head = h('summary', null, icon('right', 12), h('h2', {text: title}), this.note);
    this.node = h('details', {class: 'fold', id}, head, this.body);
    this.node.addEventListener('toggle', () => this.open && onOpen());
  }

  get open() {
    return this.node.open;
  }
}
