/* The settings that were not given, as the service understood them. */
import {fill, h} from '../../elements/dom.js';
import {pairs} from '../../elements/widgets.js';
import {flatten} from '../../spec/spec.js';
import {plural} from '../../text/format.js';

export class Understood {
  constructor() {
    this.node = h('div', {class: 'understood', hidden: true});
  }

  /**
   * @param {string} text
   * @param {Api.DryRun} answer
   */
  show(text, answer) {
    const given = new Set(flatten(JSON.parse(text)).map(([k]) => k));
    const rest = flatten(answer.spec || {}).filter(([k]) => !given.has(k));
    const note = plural(given.size, 'setting') + ' given, ' + rest.length + ' by default';
    this.node.hidden = rest.length === 0;
    fill(this.node,
        h('div', {class: 'row-title'}, h('h2', {text: 'As understood'}),
            h('span', {class: 'note', text: note})),
        pairs(rest, {tabindex: '0', 'aria-label': 'Settings by default'}, 'mono'));
  }
}
