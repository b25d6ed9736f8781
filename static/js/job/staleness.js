/* Staleness: versions a gradient is behind when it is applied. Up to eight nodes: a strip over time each, all on one
   scale from 0; more: a row of heat each. Beside it the distribution. Where the strategy exchanges every step together
   there is nothing to be late for, and a sentence says so. */
import {Chart} from '../chart/chart.js';
import {xLabel, xTicks} from '../chart/scale.js';
import {smooth, valueAt} from '../chart/smooth.js';
import {cssVar, fill, h, keyed, s, say} from '../dom.js';
import {histogram} from '../figures.js';
import {known, seconds, tick, whole} from '../format.js';

import {emptyText, visible} from './learning.js';
import {secondsPerVersion} from './summary.js';

const STRIP = 56;

/* The mean while the minibatches were equal: up to the first change. */
function equalMean(data, node) {
  const first = data.assignments.find((a, i) => i > 0 && a.version > 1);
  const curve = data.curve('staleness', node);
  if (!first || data.job.spec?.batching?.policy !== 'dynamic' ||
      new Set(Object.values(data.assignments[0].batches || {})).size !== 1) {
    return NaN;
  }
  const until = data.xOfStep(first.step);
  let sum = 0;
  let n = 0;
  for (let i = 0; i < curve.x.length && curve.x[i] < until; i++) {
    if (known(curve.mean[i])) {
      sum += curve.mean[i];
      n++;
    }
  }
  return n > 1 ? sum / n : NaN;
}

export function make(ui) {
  const {data, group, key} = ui;
  const strips = new Map();
  const stripBox = h('div', {class: 'strips'});
  const heat = h('div', {class: 'heat', hidden: true});
  const heatFoot = h('div', {class: 'heat-foot', hidden: true});
  const table = h('div', {class: 'chart-table scroll', hidden: true});
  const note = h('span', {class: 'count'});
  const sub = h('span', {class: 'note', text: 'versions a gradient is behind when it is applied'});
  const head =
      h('div', {class: 'row-title'}, h('h2', {text: 'Staleness'}), sub,
        h('span', {class: 'tools'}, note, tableButton(table, () => drawTable())));
  const calm = h('p', {class: 'sub calm', hidden: true});
  const tbody = h('tbody');
  const dist =
      h('table', {class: 'dist dense-on-many'}, h('caption', {class: 'sr', text: 'Staleness of each node'}),
        h('thead', null,
          h('tr', null, h('th', {scope: 'col', text: 'Distribution'}),
            ['p50', 'p95', 'Max', 'Age p95'].map((t) => h('th', {class: 'num', scope: 'col', text: t})))),
        tbody);
  const foot = h('p', {class: 'quiet small-note'});
  const node =
      h('section', {'aria-label': 'Staleness', class: 'row staleness'},
        h('div', null, head, calm, stripBox, heat, heatFoot, table), h('div', {class: 'rail-side'}, dist, foot));

  function strip(name, last) {
    let chart = strips.get(name);
    if (!chart || chart.last !== last) {
      if (chart) {
        group.drop(chart.chart);
      }
      const made = new Chart(group, {
        title: 'staleness-' + name,
        label: 'Staleness of ' + name,
        height: STRIP + (last ? 22 : 0),
        compact: true,
        axis: last,
        format: (v) => String(v),
        yTicks: 2
      });
      made.toggleTable = () => head.querySelector('.tool').click();
      chart = {
        chart: made,
        last,
        node:
            h('div', {class: 'strip', data: {node: name}}, h('span', {class: 'strip-name'}, key.label(name)), made.node)
      };
      strips.set(name, chart);
    }
    return chart;
  }

  function drawStrips(names, most) {
    const list = names.map((name, i) => strip(name, i === names.length - 1));
    keyed(stripBox, list, (c) => c.node.dataset.node + c.last, (c) => c.node);
    for (const [name, c] of strips) {
      if (!names.includes(name)) {
        group.drop(c.chart);
        strips.delete(name);
      }
    }
    const cuts = group.marks.filter((m) => m.kind !== 'checkpoint').map((m) => m.x);
    names.forEach((name) => {
      const raw = data.curve('staleness', name);
      const soft = smooth(raw, Math.min(ui.smoothing, 0.5), cuts);
      const n = raw.x.length;
      const equal = equalMean(data, name);
      const recent = n ? soft[n - 1] : NaN;
      const top = Math.max(1, most);
      const ends = n ? [{y: recent, text: known(recent) ? recent.toFixed(1) : '', bold: true}] : [];
      if (known(equal)) {
        ends.push({y: equal, text: (ui.narrow ? '' : 'equal ') + equal.toFixed(1), quiet: true});
      }
      const c = strips.get(name);
      c.node.classList.toggle('dim', Boolean(ui.chosen) && ui.chosen !== name);
      c.chart.set({
        rows: raw.x.map((x, i) => [x, soft[i]]),
        lines: [{label: name, colour: key.colour(name), width: 1.5}],
        band: {...raw, colour: key.colour(name)},
        range: [-0.04 * top, top * 1.08],
        ticks: top < 4 ? [0, Math.round(top)] : [Math.round(top / 4), Math.round(3 * top / 4)],
        ends,
        hlines: known(equal) ? [{y: equal, style: 'ghost'}] : [],
        empty: n              ? '' :
            name === names[0] ? emptyText(data.job) :
                                ''
      });
    });
  }

  function drawHeat(names, most) {
    const tall = names.length > 40 ? 6 : 18;
    heat.style.setProperty('--row', tall + 'px');
    drawHeatFoot(most);
    keyed(
        heat, names, (n) => n + key.number(n),
        (name) => {
          const canvas =
              h('canvas', {class: 'heat-row', role: 'img', 'aria-label': 'Staleness of ' + name + ' over time'});
          const end = h('span', {class: 'heat-end'});
          return {
            node: h('div', {class: 'heat-line'}, h('span', {class: 'strip-name'}, key.label(name)), canvas, end),
            canvas,
            end
          };
        },
        (row, name) => {
          const raw = data.curve('staleness', name);
          const width = row.canvas.clientWidth;
          row.canvas.width = width;
          row.canvas.height = tall;
          const ctx = row.canvas.getContext('2d');
          const bins = [0, 1, 2, 3, 4].map((i) => cssVar('--h' + i));
          const [a, b] = group.window();
          ctx.fillStyle = bins[0];
          ctx.fillRect(0, 0, width, tall);
          raw.x.forEach((x, i) => {
            const x0 = width * (x - a) / (b - a);
            const x1 = i + 1 < raw.x.length ? width * (raw.x[i + 1] - a) / (b - a) : x0 + 2;
            ctx.fillStyle = bins[Math.min(4, Math.floor(5 * raw.max[i] / (most + 0.001)))];
            ctx.fillRect(x0, 0, Math.max(1, x1 - x0), tall);
          });
          const last = raw.mean.slice(-30).filter(known);
          say(row.end, last.length ? (last.reduce((p, c) => p + c, 0) / last.length).toFixed(1) : '');
        });
  }

  /* Ticks of the axis, and what the five steps of the scale mean. */
  function drawHeatFoot(most) {
    const [a, b] = group.window();
    const text = [a, b, most, group.axis, heatFoot.clientWidth].join();
    if (heatFoot.dataset.key === text) {
      return;
    }
    heatFoot.dataset.key = text;
    const edges = [0, 1, 2, 3, 4, 5].map((i) => Math.ceil(i * (most + 0.001) / 5));
    fill(
        heatFoot,
        h('div', {class: 'heat-axis'}, xTicks(group.axis, a, b, 6).map((v) => h('span', {
                                                                         text: xLabel(group.axis, v, b - a),
                                                                         style: {left: 100 * (v - a) / (b - a) + '%'}
                                                                       }))),
        h('p', {class: 'legend'},
          [0, 1, 2, 3, 4]
              .filter((i) => edges[i + 1] > edges[i])
              .map(
                  (i) =>
                      h('span', null, h('i', {class: 'ph', style: {background: 'var(--h' + i + ')'}}),
                        edges[i] === edges[i + 1] - 1 ? String(edges[i]) : edges[i] + ' to ' + (edges[i + 1] - 1)))));
  }

  function drawTable() {
    const names = data.nodes();
    const curves = names.map((n) => data.curve('staleness', n));
    const xs = [...new Set(curves.flatMap((c) => c.x))].sort((p, q) => q - p).slice(0, 200);
    fill(
        table,
        h('table', {class: 'dense'}, h('caption', {class: 'sr', text: 'Staleness of each node, newest first'}),
          h('thead', null,
            h('tr', null, h('th', {scope: 'col', text: group.axis === 'step' ? 'Step' : group.axis}),
              names.map((n) => h('th', {class: 'num', scope: 'col'}, key.label(n))))),
          h('tbody', null, xs.map((x) => h('tr', null, h('td', {text: tick(x)}), curves.map((c) => {
                                    const v = valueAt(c.x, c.mean, x, true);
                                    return h('td', {class: 'num', text: known(v) ? v.toFixed(1) : ''});
                                  }))))));
  }

  function drawDistribution(names) {
    const rows = names.map((name) => data.staleness.nodes.find((n) => n.node === name) || {node: name, histogram: []});
    const bins = Math.max(8, ...rows.map((r) => (r.histogram || []).length));
    const per = secondsPerVersion(data.job);
    keyed(
        tbody, rows, (r) => r.node + key.number(r.node),
        (r) => {
          const cells = [0, 1, 2, 3].map((i) => h('td', {class: 'num' + (i === 1 ? ' strong' : '')}));
          const figure = h('td', {class: 'hist-cell'});
          return {node: h('tr', {data: {node: r.node}}, figure, cells), figure, cells};
        },
        (row, r) => {
          const text = JSON.stringify(r.histogram) + bins + r.p95;
          if (row.figure.dataset.key !== text) {
            row.figure.dataset.key = text;
            fill(
                row.figure,
                h('span', {class: 'hist-name'}, key.mark(r.node, 9), h('span', {class: 'sr', text: r.node})),
                histogram(r.histogram || [], bins, r.p95, key.colour(r.node), r.node + ': updates by staleness'));
          }
          row.node.classList.toggle('dim', Boolean(ui.chosen) && ui.chosen !== r.node);
          [whole(r.p50), whole(r.p95), whole(r.max), known(per) && known(r.p95) ? seconds(r.p95 * per) : 'none']
              .forEach((t, i) => say(row.cells[i], t));
        });
  }

  return {
    node,
    update(what) {
      const names = data.nodes();
      const curves = names.map((n) => data.curve('staleness', n));
      const win = group.window();
      const most = Math.max(0, ...curves.flatMap((c) => visible(c.x, win).map((i) => c.max[i])).filter(known));
      const strategy = data.job.spec?.strategy?.type || 'sync';
      const together = strategy === 'sync' && most === 0;
      say(sub, 'versions a gradient is behind when it is applied' + (most > 0 ? ', 0 to ' + most : ''));
      calm.hidden = !together;
      say(calm,
          together ? 'In sync all workers exchange at every step, so no gradient is ever late: staleness is 0.' : '');
      stripBox.hidden = key.many || together;
      heat.hidden = heatFoot.hidden = !key.many || together;
      node.classList.toggle('many', key.many);
      dist.hidden = together || names.length === 0;
      node.classList.toggle('is-calm', together);
      if (!together) {
        (key.many ? drawHeat : drawStrips)(names, most);
        drawDistribution(names);
      }
      const any = curves.reduce((a, b) => (b.total > (a ? a.total : -1) ? b : a), null);
      say(note,
          together || !any || any.x.length === 0 ? '' :
              any.x.length < any.total           ? 'up to ' + whole(any.x.length) + ' of ' + whole(any.total) +
                  ' points per node, extremes kept' :
                                         'every point');
      say(foot,
          together || !names.length ? '' :
                                      'Counted over the whole run. Dotted in the figures: p95' +
                  (names.some((n) => known(equalMean(data, n))) ?
                       '; dotted in the strips: the mean while the split was equal.' :
                       '.'));
      if (!table.hidden && (what.has('series') || what.has('all'))) {
        drawTable();
      }
    }
  };
}

export function tableButton(box, draw) {
  const button =
      h('button', {
        type: 'button',
        class: 'btn ghost icon tool',
        'aria-label': 'Numbers as a table',
        title: 'Table',
        'aria-pressed': 'false',
        on: {
          click() {
            box.hidden = !box.hidden;
            button.setAttribute('aria-pressed', String(!box.hidden));
            if (!box.hidden) {
              draw();
            }
          }
        }
      },
        s('svg', {
          viewBox: '0 0 16 16',
          width: 14,
          height: 14,
          fill: 'none',
          stroke: 'currentColor',
          'stroke-width': 1.6,
          'aria-hidden': 'true'
        },
          s('path', {d: 'M2 3h12v10H2zM2 6.3h12M2 9.6h12M6.5 6.3V13'})));
  return button;
}
