/* Minibatch per node, as steps because a size holds until it is changed, and beside it why it was changed. Drawn from
 * the assignments, which are exact. */
import {Chart} from '../chart/chart.js';
import {niceRange} from '../chart/scale.js';
import {h, keyed, say} from '../dom.js';
import {clock, known, seconds, tick, whole} from '../format.js';

import {emptyText} from './learning.js';

/* [[x, size of each node…]]; what was given at the same step before has never been in force. */
export function sizeRows(data, names, upTo) {
  let rows = [];
  for (const a of data.placed()) {
    const x = data.xOfStep(a.at);
    rows = rows.filter((r) => r[0] < x);
    rows.push([x, ...names.map((n) => (a.batches && a.batches[n] !== undefined ? a.batches[n] : null))]);
  }
  if (rows.length && rows[0][0] > 0) {
    rows[0][0] = 0;
  }
  if (rows.length && upTo > rows[rows.length - 1][0]) {
    rows.push([upTo, ...rows[rows.length - 1].slice(1)]);
  }
  return rows;
}

export function make(ui) {
  const {data, group, key} = ui;
  const chart = new Chart(group, {
    title: 'Minibatch per node',
    subtitle: 'samples per step',
    height: 190,
    format: (v) => tick(v),
    table: () => {
      const names = data.nodes();
      return {
        heads: ['Version', 'Step', ...names.map((n) => key.label(n)), 'Predicted', 'Measured before'],
        rows: data.placed().reverse().map(
            (a) =>
                ['v' + a.version, whole(a.at),
                 ...names.map((n) => (a.batches?.[n] === undefined ? 'none' : String(a.batches[n]))),
                 a.predicted_step_seconds > 0 ? seconds(a.predicted_step_seconds) : 'none',
                 a.measured_step_seconds > 0 ? seconds(a.measured_step_seconds) : 'none'])
      };
    }
  });
  const list = h('ol', {class: 'reasons', id: 'reasons'});
  const none = h('p', {class: 'quiet'});
  const node =
      h('section', {'aria-label': 'Minibatch per node', class: 'row'}, chart.node,
        h('div', {class: 'rail-side'}, h('h3', {class: 'rail-head', text: 'Why it changed'}), list, none));

  function drawChart() {
    const names = data.nodes();
    const xEnd = data.extent();
    const rows = sizeRows(data, names, xEnd);
    const sizes = rows.flatMap((r) => r.slice(1)).filter(known);
    const equal = data.job.spec?.batching?.global_batch / Math.max(1, names.length);
    const log = names.length > 8;
    const last = rows[rows.length - 1];
    const shown = names.length > 8 ? names.filter((n) => key.number(n)) : names;
    chart.set({
      rows,
      log,
      lines: names.map((n) => ({
                         label: n,
                         colour: key.colour(n),
                         width: ui.chosen === n ? 3 : 1.75,
                         step: true,
                         shape: names.length <= 8 ? key.shapeName(n) : undefined
                       })),
      range: niceRange([...sizes, equal], {zero: !log, log, pad: 0.12}),
      hlines: sizes.length && known(equal) && new Set(last ? last.slice(1) : []).size > 1 ? [{
        y: equal,
        style: 'ghost',
        text: 'equal split ' + (equal < 20 ? Math.round(equal * 10) / 10 : Math.round(equal))
      }] :
                                                                                            [],
      ends: last ? shown.map((n) => ({
                               y: last[1 + names.indexOf(n)],
                               text: String(last[1 + names.indexOf(n)] ?? ''),
                               bold: true,
                               mark: n,
                               icon: () => key.mark(n, 9)
                             })) :
                   [],
      subtitle: 'samples per step; the sum is always ' + whole(data.job.spec?.batching?.global_batch),
      empty: rows.length ? '' : emptyText(data.job)
    });
  }

  function drawReasons() {
    const all = data.placed();
    const names = data.nodes();
    const entries = all.map((a, i) => ({a, before: all[i - 1], i})).reverse();
    keyed(list, entries.slice(0, 12), (e) => e.i + ':' + e.a.version + ':' + Math.round(e.a.at), ({a, before}) => {
      const moves =
          h('p', {class: 'moves'},
            names.filter((n) => a.batches && a.batches[n] !== undefined)
                .slice(0, 8)
                .map(
                    (n) =>
                        h('span', null, key.mark(n, 9),
                          h('span', null,
                            before && before.batches && before.batches[n] !== undefined &&
                                    before.batches[n] !== a.batches[n] ?
                                before.batches[n] + '→' :
                                '',
                            h('b', {text: String(a.batches[n])})))));
      const facts = [
        (a.restart ? 'restart, about step ' : 'step ') + whole(a.at), a.time ? clock(a.time, true) : '',
        before && a.measured_step_seconds > 0 ? 'as it was: ' + seconds(a.measured_step_seconds) : '',
        a.predicted_step_seconds > 0 ? 'predicted ' + seconds(a.predicted_step_seconds) : ''
      ].filter(Boolean).join(' · ');
      return h(
          'li', null, h('span', {class: 'tag', text: 'v' + a.version}),
          h('div', null, h('p', {text: a.reason}), moves, h('p', {class: 'quiet', text: facts})));
    });
    say(none,
        all.length === 0        ? 'No minibatches have been given out yet.' :
            entries.length > 12 ? 'The ' + (entries.length - 12) + ' earlier ones are in the table.' :
                                  '');
  }

  return {
    node,
    update() {
      drawChart();
      drawReasons();
    }
  };
}
