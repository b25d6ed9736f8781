/* Throughput, and the gap to what the nodes would do if they only computed; beside it where a step goes. */
import {Chart} from '../chart/chart.js';
import {niceRange} from '../chart/scale.js';
import {smooth, valueAt} from '../chart/smooth.js';
import {h, keyed, say} from '../dom.js';
import {phaseBar, phaseKey} from '../figures.js';
import {known, tick, whole} from '../format.js';
import {stepTimes} from '../verdict.js';

import {emptyText, visible} from './learning.js';

/* At each point of the curve: the sum over nodes of minibatch by computing time. */
function idealCurve(data, names, xs) {
  const parts = names.map((n) => ({b: data.curve('batch', n), c: data.curve('compute_seconds', n)}));
  const soft = parts.map((p) => smooth(p.c, 0.7));
  return xs.map((x) => parts.reduce((sum, p, i) => {
    const batch = valueAt(p.b.x, p.b.mean, x, true);
    const compute = valueAt(p.c.x, soft[i], x);
    return batch > 0 && compute > 0 ? sum + batch / compute : NaN;
  }, 0));
}

const ms = (v) =>
    (v >= 0.0995     ? Math.round(v * 1000).toLocaleString('en-US') :
         v < 0.00005 ? '0' :
         v < 0.00995 ? (v * 1000).toFixed(1) :
                       (v * 1000).toFixed(0));

export function make(ui) {
  const {data, group, key} = ui;
  const now = {x: [], y: [], ideal: []};
  const chart = new Chart(group, {
    title: 'Throughput',
    subtitle: 'samples per second; the gap is time not spent computing',
    height: 150,
    yTicks: 4,
    format: (v) => tick(v),
    table: () => ({
      heads: ['Place', 'Samples/s', 'Ideal'],
      rows: now.x
                .map(
                    (x, i) =>
                        [tick(Math.round(x * 100) / 100), whole(now.y[i]),
                         known(now.ideal[i]) ? whole(now.ideal[i]) : 'none'])
                .reverse()
    })
  });
  const tbody = h('tbody');
  const split =
      h('table', {class: 'split-table'}, h('caption', {class: 'sr', text: 'Where a step goes, milliseconds per node'}),
        h('thead', null,
          h('tr', null, h('th', {scope: 'col', text: 'Node'}), h('th', {scope: 'col', class: 'grow', text: 'One step'}),
            ['Compute', 'Exch.', 'Wait'].map((t) => h('th', {class: 'num', scope: 'col', text: t})))),
        tbody);
  const empty = h('p', {class: 'quiet'});
  const keyLine = phaseKey('compute', 'exchange', 'wait');
  const node =
      h('section', {'aria-label': 'Throughput', class: 'row'}, chart.node,
        h('div', {class: 'rail-side'}, h('h3', {class: 'rail-head', text: 'Where a step goes, ms per node'}), split,
          keyLine, empty));

  function drawChart() {
    const raw = data.curve('samples_per_second');
    const soft = smooth(raw, Math.min(0.6, ui.smoothing), ui.cuts);
    const ideal = idealCurve(data, data.nodes(), raw.x);
    Object.assign(now, {x: raw.x, y: raw.mean, ideal});
    const inside = visible(raw.x, group.window());
    const high = niceRange([...inside.flatMap((i) => [soft[i], ideal[i], raw.mean[i]])], {zero: true, pad: 0.15});
    const n = raw.x.length;
    const ends = [];
    if (n) {
      if (known(ideal[n - 1])) {
        ends.push({y: ideal[n - 1], text: (ui.narrow ? '' : 'ideal ') + whole(ideal[n - 1]), quiet: true});
      }
      ends.push({y: soft[n - 1], text: whole(soft[n - 1]), bold: true});
    }
    chart.set({
      rows: raw.x.map((x, i) => [x, soft[i], known(ideal[i]) ? ideal[i] : null]),
      lines: [
        {label: 'samples per second', colour: 'var(--ink)', width: 2},
        {label: 'ideal', colour: 'var(--ink-2)', width: 1.25, dash: [5, 3]}
      ],
      band: {...raw, colour: 'var(--ink)', line: false},
      area: idealArea(raw.x, ideal, soft),
      range: high,
      ends,
      note: n ? (n < raw.total ? whole(n) + ' of ' + whole(raw.total) + ' windows' : '') : '',
      empty: n ? '' : emptyText(data.job)
    });
  }

  function drawSplit() {
    const steps = stepTimes(data.job.workers || []);
    const any = steps.some((x) => x.all > 0);
    const scale = Math.max(...steps.map((x) => x.all), 0);
    split.hidden = keyLine.hidden = !any;
    say(empty, any ? '' : 'Measured as soon as steps end.');
    keyed(
        tbody, steps, (x) => x.node + key.number(x.node),
        (x) => {
          const bar = phaseBar();
          const cells = [0, 1, 2].map(() => h('td', {class: 'num'}));
          return {
            node: h('tr', null, h('td', null, key.label(x.node)), h('td', {class: 'grow'}, bar.node), cells),
            bar,
            cells
          };
        },
        (row, x) => {
          row.node.classList.toggle('dim', Boolean(ui.chosen) && ui.chosen !== x.node);
          row.bar.set([x.compute, x.exchange, x.wait], scale);
          [x.compute, x.exchange, x.wait].forEach((v, i) => say(row.cells[i], ms(v)));
        });
  }

  return {
    node,
    update() {
      drawChart();
      drawSplit();
    }
  };
}

function idealArea(x, top, bottom) {
  const good = x.map((v, i) => i).filter((i) => known(top[i]) && known(bottom[i]));
  return {
    x: good.map((i) => x[i]),
    top: good.map((i) => top[i]),
    bottom: good.map((i) => bottom[i]),
    colour: 'var(--p-wait)'
  };
}
