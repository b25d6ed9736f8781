/* Every setting of the job as the service understood it. */
import {fill, h, say} from '../../../elements/dom.js';
import {copyButton, pairs} from '../../../elements/widgets.js';
import {flatten} from '../../../spec/spec.js';
import {plural} from '../../../text/format.js';

import {Fold} from './fold.js';

/** @typedef {import('../view.js').JobView} JobView */

export class Configuration {
  /** @param {JobView} view */
  constructor(view) {
    this.data = view.data;
    this.fold = new Fold('configuration', 'Configuration', () => this.draw());
    /** @type {Api.Spec | null} */
    this.drawn = null;
  }

  draw() {
    const {spec} = this.data.job;
    const flat = flatten(spec || {});
    say(this.fold.note, 'as understood: ' + plural(flat.length, 'setting') + ', defaults included');
    if (this.drawn === spec || !this.fold.open) {
      return;
    }
    this.drawn = spec;
    const copy =
        copyButton('Copy as JSON', () => JSON.stringify(spec, null, 2), {class: 'btn small'});
    const clone = {
      class: 'btn small',
      href: '#/new?from=' + this.data.id,
      text: 'New job from this'
    };
    fill(this.fold.body, h('p', {class: 'actions'}, copy, h('a', clone)),
        pairs(flat, {class: 'settings'}, 'mono'));
  }
}
