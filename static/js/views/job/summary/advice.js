/* Below the verdict: a link to the chart that shows it, and the first remedy. */
import {h, refill} from '../../../elements/dom.js';
import {button} from '../../../elements/widgets.js';

/** @param {string} name of the chart */
function show(name) {
  /** @type {HTMLElement | null} */
  const chart = document.querySelector('.chart[data-chart="' + name + '"]');
  chart?.scrollIntoView({block: 'center'});
  chart?.focus({preventScroll: true});
}

export class Advice {
  constructor() {
    this.node = h('p', {class: 'actions advice', id: 'advice'});
  }

  /** @param {Page.Verdict} v */
  update({chart, action}) {
    refill(this.node, JSON.stringify([chart, action]),
        () => [action && h('a', {class: 'btn small', href: action.href, text: action.text}),
            chart &&
                button('Show it in the chart', () => show(chart), {class: 'btn small ghost'})]);
  }
}
