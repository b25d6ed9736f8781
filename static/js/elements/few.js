/* A long list, of nodes or of what `what` says, shows some of them, and all of them on a button. */
import {say} from './dom.js';
import {button} from './widgets.js';

const MOST = 16;

export class Few {
  /**
   * @param {() => void} draw
   * @param {string} [what]
   * @param {number} [most] that are shown at first
   */
  constructor(draw, what = 'nodes', most = MOST) {
    this.what = what;
    this.most = most;
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
    const {what, most} = this;
    const many = list.length > most;
    this.node.hidden = !many;
    say(this.node, many ? (this.all ? 'Fewer ' : 'All ' + list.length + ' ') + what : '');
    if (!many || this.all) {
      return list;
    }
    const others = list.filter((item) => !comesFirst(item));
    const kept = new Set([...list.filter(comesFirst), ...others].slice(0, most));
    return list.filter((item) => kept.has(item));
  }
}
