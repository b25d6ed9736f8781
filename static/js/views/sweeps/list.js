/* All sweeps, the newest first. */
import {fill, h} from '../../elements/dom.js';
import {pill} from '../../elements/states.js';
import {numeric, scroller, table} from '../../elements/widgets.js';
import {get} from '../../service/api.js';
import {when} from '../../text/format.js';

import {metricText, metricTitle} from './words.js';

const HEADS =
    ['Sweep', 'State', 'Method', ...numeric('Trials', 'Jobs ended', 'Best'), 'Metric', 'Started'];

/** @param {Api.SweepRow} sweep */
function makeRow({id, name, state, method, counts, best, metric, created}) {
  return h('tr', null,
      h('td', null, h('a', {class: 'job-link', href: '#/sweeps/' + id, text: name})),
      h('td', null, pill(state)), h('td', {text: method.type}),
      h('td', {class: 'num', text: counts.trials}), h('td', {class: 'num', text: counts.ended}),
      h('td', {class: 'num', text: metricText(metric.name, best?.metric)}),
      h('td', {text: metricTitle(metric.name)}), h('td', {title: created, text: when(created)}));
}

/**
 * @param {Element} root
 * @param {Page.Route} route
 */
export async function show(root, route) {
  document.title = 'Sweeps · Evenstep';
  /** @type {{sweeps: Api.SweepRow[]}} */
  const {sweeps} = await get('sweeps');
  if (route.alive()) {
    const body = h('tbody', null, sweeps.map(makeRow));
    const none = h('p', {
      class: 'quiet',
      text: 'There is no sweep yet: a job that is tried with several settings.'
    });
    fill(root, h('p', {class: 'crumbs'}, h('a', {href: '#/', text: 'Jobs'}), ' /'),
        h('div', {class: 'head'}, h('div', {class: 'title'}, h('h1', {text: 'Sweeps'})),
            h('div', {class: 'actions'},
                h('a', {class: 'btn primary', href: '#/sweeps/new', text: 'New sweep'}))),
        h('div', {class: 'sheet'},
            sweeps.length ? scroller('Sweeps, table', table('Sweeps', HEADS, body, 'trial-table'))
                          : none));
  }
  return {};
}
