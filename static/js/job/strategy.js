/* What a strategy tells of itself, per node: a chart of its own figure, and its last values with the exchange that computing did not hide.
 * Strategies without one (sync, asgd, softsync) have no such row. A newcomer would look for the figure in many places: it is one series,
 * `strategy_value`, whose meaning follows from the strategy (docs/metrics.md); for `ssp` it is the waiting that every strategy tells. */
import {Chart} from '../chart/chart.js';
import {niceRange} from '../chart/scale.js';
import {valueAt} from '../chart/smooth.js';
import {h, keyed, say} from '../dom.js';
import {known, seconds, tick} from '../format.js';

import {emptyText} from './learning.js';

const short = (v) => (v >= 1000 || v === 0 ? tick(v) : String(Number(v.toPrecision(3))));
const COMPENSATES = {
  series: 'strategy_value',
  title: 'Compensation',
  subtitle: 'length of an update beside that of its plain gradient; 1: nothing was changed',
  head: 'Length',
  format: short,
  level: 1
};
const AVERAGES = {
  series: 'strategy_value',
  title: 'Distance of the replicas',
  subtitle: 'of a node’s parameters from the average of all, just before it',
  head: 'Distance',
  format: short
};
const FIGURES = {
  'hpsgd': {
    series: 'strategy_value',
    title: 'Local steps of a round',
    subtitle: 'steps on the replica while the last round’s gradients travel',
    head: 'Local steps',
    format: short
  },
  'local-sgd': AVERAGES,
  'hier-sgd': AVERAGES,
  'dc-asgd': COMPENSATES,
  'dc-asgdk': COMPENSATES,
  'ddc-asgd': COMPENSATES,
  'ssp': {
    series: 'wait_seconds',
    title: 'Waiting for the slowest',
    subtitle: 'time that a worker ahead of the others is held back, per gradient',
    head: 'Waiting',
    format: seconds
  }
};

/* Points that have a value: an average every k steps leaves the others without. */
function curveOf(data, name, node) {
  const raw = data.curve(name, node);
  const at = raw.x.map((x, i) => i).filter((i) => known(raw.mean[i]));
  return {x: at.map((i) => raw.x[i]), y: at.map((i) => raw.mean[i])};
}

export function make(ui) {
  const {data, group, key} = ui;
  const f = FIGURES[data.job.spec?.strategy?.type];
  if (!f) {
    return {node: h('div', {hidden: true}), update() {}};
  }
  const now = {names: [], curves: []};
  const chart = new Chart(group, {
    title: f.title,
    subtitle: f.subtitle,
    height: 150,
    yTicks: 4,
    format: (v) => tick(v),
    table: () => ({
      heads: ['Node', 'Place', f.head],
      rows: now.names.flatMap((n, k) => now.curves[k].x.map((x, i) => [key.label(n), tick(x), f.format(now.curves[k].y[i])])).reverse()
    })
  });
  const tbody = h('tbody');
  const empty = h('p', {class: 'quiet'});
  const table = h('table', {class: 'split-table'}, h('caption', {class: 'sr', text: 'The strategy’s figure per node, now'}),
                  h('thead', null, h('tr', null, h('th', {scope: 'col', text: 'Node'}), h('th', {class: 'num', scope: 'col', text: f.head}), h('th', {class: 'num', scope: 'col', text: 'Exposed exchange'}))),
                  tbody);
  const node = h('section', {'aria-label': 'What the strategy does', class: 'row'}, chart.node,
                 h('div', {class: 'rail-side'}, h('h3', {class: 'rail-head', text: 'Now, per node'}), table, empty));

  function drawChart() {
    now.names = data.nodes();
    now.curves = now.names.map((n) => curveOf(data, f.series, n));
    const xs = now.curves.reduce((most, c) => (c.x.length > most.length ? c.x : most), []);
    const rows = xs.map((x) => [x, ...now.curves.map((c) => (c.x.length ? valueAt(c.x, c.y, x) : null))]);
    const values = now.curves.flatMap((c) => c.y);
    chart.set({
      rows,
      lines: now.names.map((n) => ({label: n, colour: key.colour(n), width: ui.chosen === n ? 3 : 1.75})),
      range: niceRange(values.length ? [...values, f.level ?? 0] : [], {zero: true, pad: 0.15}),
      hlines: f.level && values.length ? [{y: f.level, style: 'ghost', text: 'as it came'}] : [],
      ends: [],
      empty: rows.length ? '' : emptyText(data.job)
    });
  }

  function drawTable() {
    const list = (data.job.workers || []).map((w) => {
      const c = now.curves[now.names.indexOf(w.node)];
      return {node: w.node, value: c && c.y.length ? c.y[c.y.length - 1] : NaN, exchange: w.exchange_seconds};
    });
    table.hidden = !list.some((r) => known(r.value));
    say(empty, table.hidden ? 'Told as soon as steps end.' : '');
    keyed(
        tbody, list, (r) => r.node + key.number(r.node),
        (r) => {
          const cells = [0, 1].map(() => h('td', {class: 'num'}));
          return {node: h('tr', null, h('td', null, key.label(r.node)), cells), cells};
        },
        (row, r) => {
          say(row.cells[0], known(r.value) ? f.format(r.value) : 'none');
          say(row.cells[1], known(r.exchange) ? seconds(r.exchange) : 'none');
        });
  }

  return {
    node,
    update() {
      drawChart();
      drawTable();
    }
  };
}
