/* The sentence, its evidence, four numbers, and beside them the node table, which is also the page's colour key. The
   sentence changes at most every 10 s, and at once only when its cause does. */
import {fitLine} from '../chart/smooth.js';
import {fill, h, keyed, say} from '../dom.js';
import {finishBar} from '../figures.js';
import {age, known, loss, NARROW, percent, seconds, three, whole} from '../format.js';
import {icon} from '../icons.js';
import {active} from '../states.js';
import {equalSplit, median, stepTimes, verdict} from '../verdict.js';

import {dataAge} from './age.js';

const KEEP_MS = 10000;

function tile(label, id) {
  const value = h('span', {class: 'value'});
  const unit = h('span', {class: 'unit'});
  const more = h('p', {class: 'quiet'});
  return {
    node: h('div', {class: 'tile', id}, h('p', {class: 'quiet', text: label}), h('p', null, value, unit), more),
    set(v, u, m) {
      const none = v === 'none';
      say(value, none ? 'none yet' : v);
      value.classList.toggle('none', none);
      say(unit, none || !u ? '' : u);
      say(more, m);
    }
  };
}

/* Fixed part of each node's step, from what was measured at different minibatches. */
export function fixedParts(data) {
  const out = {};
  for (const node of data.nodes()) {
    const b = data.curve('batch', node);
    const c = data.curve('compute_seconds', node);
    const bySize = new Map();
    for (let i = 0; i < Math.min(b.x.length, c.x.length); i++) {
      if (b.min[i] === b.max[i] && b.mean[i] > 0 && known(c.mean[i])) {
        bySize.set(b.mean[i], [...(bySize.get(b.mean[i]) || []), c.mean[i]]);
      }
    }
    const bs = [...bySize.keys()];
    const {a, k} = bs.length > 1 ? fitLine(bs, bs.map((size) => median(bySize.get(size)))) : {a: NaN, k: NaN};
    if (k > 0 && a >= 0 && Math.max(...bs) > 1.3 * Math.min(...bs)) {
      out[node] = a;
    }
  }
  return out;
}

export function make(ui) {
  const {data, key} = ui;
  const sentence = h('p', {class: 'lead', id: 'verdict', 'aria-live': 'polite'});
  const evidence = h('p', {class: 'sub evidence'});
  const failure = h('div', {class: 'failure-box'});
  const tiles = [
    tile('Train loss', 'tile-loss'), tile('Test accuracy', 'tile-accuracy'), tile('Throughput', 'tile-throughput'),
    tile('Staleness p95', 'tile-staleness')
  ];
  const tbody = h('tbody');
  const lineLabel = h('b', {class: 'line-label'});
  const scaleHead = h('div', {class: 'fin-head'}, h('span', {class: 'zero', text: '0'}), lineLabel);
  const seenHead = h('th', {class: 'num', scope: 'col', text: 'Seen'});
  const table =
      h('table', {class: 'node-table'}, h('caption', {class: 'sr', text: 'Nodes: minibatch and time for one step'}),
        h('thead', null,
          h('tr', null, ['Node', 'Device'].map((t) => h('th', {scope: 'col', text: t})),
            h('th', {class: 'num', scope: 'col', text: 'Minibatch'}),
            h('th', {scope: 'col', class: 'fin-cell'}, h('span', {text: 'Time for one step'}), scaleHead),
            h('th', {class: 'num', scope: 'col', text: 'Samples/s'}), seenHead)),
        tbody);
  const holder = h('div', {class: 'node-holder'}, table);
  const legend =
      h('p', {class: 'legend'}, h('span', null, h('i', {class: 'ph compute node-grey'}), 'compute'),
        h('span', null, h('i', {class: 'ph exchange'}), 'exchange and wait'),
        h('span', null, h('i', {class: 'whisker-sample'}), 'with an equal split'));
  const none = h('p', {class: 'quiet'});
  const right = h('div', {class: 'nodes-side'}, holder, legend, none);
  const node =
      h('section', {class: 'summary', 'aria-label': 'Summary'},
        h('div', {class: 'says'}, sentence, evidence, failure, h('div', {class: 'tiles'}, tiles.map((t) => t.node))),
        right);
  let shown = {key: '', at: 0, text: ''};
  let fixed = {};
  let fixedAt = 0;

  function drawSentence(v) {
    const text = v.parts.map((p) => (typeof p === 'string' ? p : p.node)).join('');
    const now = performance.now();
    if (text === shown.text || (v.key === shown.key && now - shown.at < KEEP_MS)) {
      return;
    }
    shown = {key: v.key, at: now, text};
    fill(
        sentence,
        v.parts.map((p) => (typeof p === 'string' ? p : h('b', {class: 'who'}, key.mark(p.node, 12), p.node))));
    say(evidence, v.evidence || '');
  }

  function drawFailure(job) {
    const e = job.state === 'failed' || (job.state === 'queued' && job.error) ? job.error : null;
    const text = e ? JSON.stringify(e) : '';
    if (failure.dataset.key === text) {
      return;
    }
    failure.dataset.key = text;
    const where = e && [
      known(e.rank) && e.rank >= 0 ? 'rank ' + e.rank : '', e.node ? 'on ' + e.node : '',
      e.attempt ? 'attempt ' + e.attempt : '', e.code || ''
    ].filter(Boolean).join(', ');
    fill(
        failure,
        e &&
            h('div', {class: 'first-error'},
              h('p', {class: 'first-error-head'}, icon('cross', 12), h('b', {text: 'First error'}),
                h('span', {text: where})),
              h('pre', {class: 'mono', text: e.message || 'no message'})));
  }

  function drawTiles(job) {
    const m = job.metrics || {};
    const st =
        job.staleness_recent && job.staleness_recent.max !== undefined ? job.staleness_recent : job.staleness || {};
    tiles[0].set(
        loss(m.train_loss), '', known(m.test_loss) ? 'test ' + loss(m.test_loss) : 'test after the first evaluation');
    const target = job.spec?.target?.test_accuracy;
    tiles[1].set(
        known(m.test_accuracy) ? (100 * m.test_accuracy).toFixed(1) : 'none', NARROW + '%',
        target ? 'target ' + percent(target) : bestTest());
    const ideal = idealRate(job.workers || []);
    const now = m.samples_per_second > 0 ? m.samples_per_second : NaN;
    tiles[2].set(
        now >= 999.5 ? whole(now) : three(now), NARROW + 'samples/s',
        active(job.state) && ideal > 0 && now > 0 ? percent(Math.min(1, now / ideal), 0) + ' of the ideal' :
                                                    'at the end of the run');
    const perVersion = secondsPerVersion(job);
    const any = job.progress?.step > 0 && known(st.p95);
    tiles[3].set(
        any ? whole(st.p95) : 'none', NARROW + (st.p95 === 1 ? 'version' : 'versions'),
        !any             ? '' :
            st.max === 0 ? 'every gradient is fresh' :
                           (known(perVersion) ? seconds(st.p95 * perVersion) + ', ' : '') + 'max ' +
                whole((job.staleness || st).max));
  }

  function bestTest() {
    const best = data.evaluations.reduce((a, b) => (a && a.accuracy >= b.accuracy ? a : b), null);
    return best && known(best.accuracy) ? 'best ' + percent(best.accuracy) + ', epoch ' + Math.round(best.epoch) : '';
  }

  function makeRow(w) {
    const straggler = h('span', {class: 'tag', text: 'straggler', hidden: true});
    const name = h(
        'button', {type: 'button', class: 'name plain', 'aria-pressed': 'false', on: {click: () => ui.choose(w.node)}},
        key.mark(w.node), h('span', {class: 'txt', text: w.node}));
    const cells = {batch: h('td', {class: 'num'}), speed: h('td', {class: 'num'}), seen: h('td', {class: 'num quiet'})};
    const bar = finishBar();
    const tr =
        h('tr', {data: {node: w.node}}, h('td', null, name, ' ', straggler), h('td', {class: 'quiet', text: w.device}),
          cells.batch, h('td', {class: 'fin-cell'}, bar.node), cells.speed, cells.seen);
    return {node: tr, straggler, bar, name, ...cells};
  }

  function drawNodes(job, slow) {
    const workers = job.workers || [];
    table.hidden = workers.length === 0;
    legend.hidden = workers.length === 0;
    say(none,
        workers.length        ? '' :
            active(job.state) ? 'The nodes report as soon as they have loaded their data.' :
                                '');
    say(seenHead, active(job.state) ? 'Seen' : 'At the end');
    const now = performance.now();
    if (now - fixedAt > 5000) {
      fixedAt = now;
      fixed = fixedParts(data);
    }
    const steps = stepTimes(workers);
    const equals = equalSplit(workers, job.assignment?.global_batch || job.spec?.batching?.global_batch || 0, fixed);
    const line = Math.max(1e-9, ...steps.map((x) => x.all));
    const worst = Math.max(line, ...equals.filter(known));
    const scale = worst > line * 1.02 ? worst * 1.22 : line * 1.12;
    say(lineLabel, line > 1e-8 ? seconds(line) : '');
    lineLabel.style.left = 100 * line / scale + '%';
    const first = data.assignments[0]?.batches || {};
    keyed(tbody, workers, (w) => w.rank + w.node + key.number(w.node), makeRow, (row, w, i) => {
      row.straggler.hidden = w.node !== slow;
      row.name.setAttribute('aria-pressed', String(ui.chosen === w.node));
      row.node.classList.toggle('chosen', ui.chosen === w.node);
      row.node.classList.toggle('dim', Boolean(ui.chosen) && ui.chosen !== w.node);
      const was = first[w.node];
      const text = was !== undefined && was !== w.batch ? was + ' → ' : '';
      if (row.batch.dataset.key !== text + w.batch) {
        row.batch.dataset.key = text + w.batch;
        fill(row.batch, text && h('span', {class: 'quiet', text}), h('b', {class: 'strong', text: String(w.batch)}));
      }
      say(row.speed,
          w.samples_per_second > 0 ?
              (w.samples_per_second >= 999.5 ? whole(w.samples_per_second) : three(w.samples_per_second)) :
              w.receiving ? 'data ' + percent(w.receiving.bytes / w.receiving.of_bytes, 0) : 'none');
      say(row.seen, active(job.state) ? age(dataAge(data, w.heartbeat_age_seconds)) : w.state);
      row.bar.set({
        compute: steps[i].compute,
        rest: steps[i].exchange + steps[i].wait,
        equal: equals[i],
        scale,
        colour: key.colour(w.node),
        label: equals[i] === worst || equals[i] > line * 1.15 ? seconds(equals[i]) : ''
      });
      row.bar.node.style.setProperty('--line-at', 100 * line / scale + '%');
    });
  }

  return {
    node,
    update() {
      const v = verdict(data.job, data.assignments);
      drawSentence(v);
      drawFailure(data.job);
      drawTiles(data.job);
      drawNodes(data.job, v.straggler);
      node.classList.toggle('many', (data.job.workers || []).length > 8);
    }
  };
}

export function idealRate(workers) {
  return workers.reduce((sum, w) => sum + (w.compute_seconds > 0 ? w.batch / w.compute_seconds : 0), 0);
}

/* Time between two versions of the server, from the time that a global batch takes. */
export function secondsPerVersion(job) {
  const n = (job.workers || []).length;
  return job.metrics?.step_seconds > 0 && n > 0 ?
      job.metrics.step_seconds / (job.spec?.strategy?.type === 'sync' ? 1 : n) :
      NaN;
}
