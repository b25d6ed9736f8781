/* A long list of nodes shows some of them, and all of them on a button. */
import {say} from './dom.js';
import {button} from './widgets.js';

const MOST = 16;

export class Few {
  /** @param {() => void} draw */
  constructor(draw) {
    this.all = false;
    this.node = button('', () => this.show(!this.all, draw),
        {class: 'btn small few', hidden: true, 'aria-expanded': 'false'});
  }

  /**
   * @param {boolean} all
   * @param {() => void} draw
   */
  show(all, draw) {
    this.all = all;
    this.node.setAttribute('aria-expanded', String(all));
    draw();
  }

  /**
   * The items to show, in their order: those that come first, and others while there is room.
   * @template T
   * @param {T[]} list
   * @param {(item: T) => boolean} comesFirst
   */
  of(list, comesFirst) {
    const many = list.length > MOST;
    this.node.hidden = !many;
    say(this.node, many ? (this.all ? 'Fewer nodes' : 'All ' + list.length + ' nodes') : '');
    if (!many || this.all) {
      return list;
    }
    const others = list.filter((item) => !comesFirst(item));
    const kept = new Set([...list.filter(comesFirst), ...others].slice(0, MOST));
    return list.filter((item) => kept.has(item));
  }
}
