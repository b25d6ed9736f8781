/* Loss and accuracy: every step as a band with its mean, smoothed on top, the test results of each evaluation beside.
 */
import {Chart} from '../chart/chart.js';
import {niceRange} from '../chart/scale.js';
import {nearest, smooth, union, valueAt} from '../chart/smooth.js';
import {h, say} from '../dom.js';
import {known, loss, percent, three, tick, whole} from '../format.js';
import {ended} from '../states.js';

import {headingOf, rail} from './rail.js';

/* As job/spec.c has it: schedule and warm-up. */
export function rateAt(spec, epoch) {
  const o = spec?.optimizer || {};
  const s = o.schedule || {};
  let rate = o.learning_rate;
  if (!known(rate)) {
    return NaN;
  }
  if (s.warmup_epochs > 0 && epoch < s.warmup_epochs) {
    return rate * epoch / s.warmup_epochs;
  }
  if (s.type === 'step') {
    rate *= (s.factor ?? 0.1) ** (s.at_epochs || []).filter((e) => epoch >= e).length;
  } else if (s.type === 'cosine') {
    const floor = s.floor || 0;
    rate = floor + (rate - floor) * 0.5 * (1 + Math.cos(Math.PI * Math.min(1, epoch / (spec.epochs || 1))));
  }
  return rate;
}

function pointsNote(curve) {
  return curve.x.length === 0      ? '' :
      curve.x.length < curve.total ? whole(curve.x.length) + ' of ' + whole(curve.total) + ' points, extremes kept' :
                                     whole(curve.total) + (curve.total === 1 ? ' point' : ' points');
}

export function emptyText(job) {
  if (job.pruned) {
    return 'The history of this job was removed on ' + job.pruned.slice(0, 10) + ' to make room.';
  }
  return {
    queued: 'The job has not started yet.',
    launching: 'The job is being started.',
    paused: 'Nothing was recorded before the pause.'
  }[job.state] ||
      (ended(job.state) ? 'Nothing was recorded.' : 'The first step has not ended yet.');
}

/* How many epochs are behind a point of the axis. */
function epochAt(ui, x) {
  const {data, group} = ui;
  if (x === null) {
    return data.job.progress?.epoch ?? NaN;
  }
  if (group.axis === 'samples') {
    return data.samplesPerEpoch ? x / data.samplesPerEpoch : NaN;
  }
  const full = data.extent();
  return full > 0 ? (data.job.progress?.epoch || 0) * x / full : NaN;
}

export function make(ui) {
  const {data, group} = ui;
  const table = (raw, soft, tests, fmt) => () => {
    const rows = raw().x.map(
        (x, i) =>
            [tick(Math.round(x * 1000) / 1000), fmt(raw().mean[i]), fmt(raw().min[i]), fmt(raw().max[i]),
             fmt(soft()[i]), '']);
    const t = tests();
    t.x.forEach((x, i) => rows.push([tick(Math.round(x * 1000) / 1000), '', '', '', '', fmt(t.y[i]), x]));
    return {
      heads: [
        group.axis === 'step'     ? 'Step' :
            group.axis === 'time' ? 'Seconds' :
                                    'Samples',
        'Train, mean', 'least', 'greatest', 'Smoothed', 'Test'
      ],
      rows: rows.map((r, i) => [i < raw().x.length ? raw().x[i] : r[6], r])
                .sort((a, b) => b[0] - a[0])
                .map(([, r]) => r.slice(0, 6))
    };
  };
  const state = {
    loss: {raw: none(), soft: [], test: {x: [], y: []}},
    acc: {raw: none(), soft: [], test: {x: [], y: []}}
  };
  const lossChart = new Chart(group, {
    title: 'Loss',
    height: 190,
    format: (v) => three(v).replace(/\.?0+$/, '') || '0',
    table: table(() => state.loss.raw, () => state.loss.soft, () => state.loss.test, loss)
  });
  const accChart = new Chart(group, {
    title: 'Accuracy',
    height: 130,
    yTicks: 4,
    format: (v) => Math.round(v * 1000) / 10 + '\u202f%',
    table: table(() => state.acc.raw, () => state.acc.soft, () => state.acc.test, (v) => percent(v))
  });
  const lossRail = rail();
  const accRail = rail(false);
  const key = h('p', {class: 'legend events-key'});
  const node =
      h('section', {'aria-label': 'Loss and accuracy', class: 'row learning'},
        h('div', null, ui.lane, lossChart.node, accChart.node),
        h('div', {class: 'rails'}, key, lossRail.node, accRail.node));
  let drawnKey = '';

  function drawKey() {
    const kinds = [...new Set(group.marks.map((m) => (m.kind === 'restart' ? 'lost' : m.kind)))];
    if (drawnKey === kinds.join()) {
      return;
    }
    drawnKey = kinds.join();
    const names = {
      change: 'dashed: minibatch change',
      lost: 'solid: node lost, restart',
      rate: 'dotted: learning rate',
      checkpoint: 'tick: checkpoint'
    };
    say(key, kinds.map((k) => names[k]).join('  ·  '));
  }

  function drawLoss() {
    const raw = data.curve('train_loss');
    const soft = smooth(raw, ui.smoothing, ui.cuts);
    const test = data.evaluationCurve('loss');
    state.loss = {raw, soft, test};
    const inside = visible(raw.x, group.window());
    const range = niceRange([...inside.flatMap((i) => [raw.min[i], raw.max[i]]), ...test.y], {log: ui.log, pad: 0.04});
    const n = raw.x.length;
    const ends = [];
    if (n && group.window()[1] >= raw.x[n - 1]) {
      if (test.y.length) {
        ends.push({
          y: test.y[test.y.length - 1],
          text: (ui.narrow ? '' : 'test ') + loss(test.y[test.y.length - 1]),
          quiet: true
        });
      }
      ends.push({y: soft[n - 1], text: (ui.narrow ? '' : 'train ') + loss(soft[n - 1]), bold: true});
    }
    lossChart.set({
      rows: union([{x: raw.x, y: soft}, test]),
      lines: [
        {label: 'train', colour: 'var(--ink)', width: 2},
        {label: 'test', colour: 'var(--ink-2)', width: 1.5, dash: [5, 3]}
      ],
      band: {...raw, colour: 'var(--ink)'},
      range,
      log: ui.log,
      ends,
      note: pointsNote(raw),
      subtitle: 'cross-entropy' + (ui.log ? ', log axis' : ''),
      empty: n || test.x.length ? '' : emptyText(data.job)
    });
  }

  function drawAccuracy() {
    const raw = data.curve('train_accuracy');
    const soft = smooth(raw, ui.smoothing, ui.cuts);
    const test = data.evaluationCurve('accuracy');
    state.acc = {raw, soft, test};
    const target = data.job.spec?.target?.test_accuracy;
    const inside = visible(raw.x, group.window());
    const shown = [
      ...inside.flatMap((i) => [raw.mean[i]]), ...soft.filter(known).slice(-1), ...test.y, ...(target ? [target] : [])
    ];
    const low = Math.min(1, ...shown.filter(known));
    const range = [
      Math.max(0, Math.floor((Number.isFinite(low) ? low : 0) * 20) / 20 - 0.02),
      Math.min(1.02, Math.max(...shown.filter(known), 0.1) + 0.03)
    ];
    const ends = [];
    const n = raw.x.length;
    if (n && known(soft[n - 1])) {
      ends.push({y: soft[n - 1], text: percent(soft[n - 1], ui.narrow ? 0 : 1), quiet: true});
    }
    if (test.y.length) {
      ends.push({
        y: test.y[test.y.length - 1],
        text: (ui.narrow ? '' : 'test ') +
            percent(test.y[test.y.length - 1]).replace('\u202f%', ui.narrow ? '' : '\u202f%'),
        bold: true
      });
    }
    accChart.set({
      rows: union([{x: raw.x, y: soft}, test]),
      lines: [
        {label: 'train', colour: 'var(--ink-2)', width: 1.25, dash: [5, 3]},
        {label: 'test', colour: 'var(--ink)', width: 2, shape: 'circle', shapeSize: 3}
      ],
      band: {...raw, colour: 'var(--ink)', line: false},
      range,
      ends,
      hlines: target ? [{y: target, style: 'target', text: 'target ' + percent(target)}] : [],
      note: test.x.length ?
          'test after ' + whole(test.x.length) + (test.x.length === 1 ? ' evaluation' : ' evaluations') :
          '',
      subtitle: 'share of samples named right',
      empty: n || test.x.length ? '' : emptyText(data.job)
    });
  }

  function at(curve, soft, test, fmt) {
    const x = group.hoverX;
    const n = curve.x.length;
    if (x === null) {
      const recent = curve.mean.slice(-40);
      return {
        soft: fmt(soft[n - 1]),
        range: n ? fmt(Math.min(...curve.min.slice(-40).filter(known))) + ' to ' +
                fmt(Math.max(...curve.max.slice(-40).filter(known))) :
                   'none',
        test: fmt(test.y[test.y.length - 1]),
        recent
      };
    }
    const i = n ? nearest(curve.x, x) : 0;
    return {
      soft: fmt(valueAt(curve.x, soft, x)),
      range: n ? fmt(curve.min[i]) + ' to ' + fmt(curve.max[i]) : 'none',
      test: fmt(valueAt(test.x, test.y, x, true))
    };
  }

  function drawRails() {
    const l = at(state.loss.raw, state.loss.soft, state.loss.test, loss);
    const a = at(state.acc.raw, state.acc.soft, state.acc.test, (v) => percent(v));
    const rate = rateAt(data.job.spec, epochAt(ui, group.hoverX));
    lossRail.set(headingOf(ui), [
      {kind: 'bold', label: 'Train, smoothed', value: l.soft},
      {kind: 'band', label: 'Train, each step: range', value: l.range},
      {kind: 'dash', colour: 'var(--ink-2)', label: 'Test, each evaluation', value: l.test},
      {label: 'Learning rate', value: known(rate) ? String(+rate.toPrecision(3)) : 'none'}
    ]);
    const best = data.evaluations.reduce((p, c) => (p && p.accuracy >= c.accuracy ? p : c), null);
    const target = data.job.spec?.target?.test_accuracy;
    const hit = target && data.evaluations.find((e) => e.accuracy >= target);
    accRail.set('', [
      {kind: 'bold', label: 'Test, each evaluation', value: a.test},
      {kind: 'dash', colour: 'var(--ink-2)', label: 'Train, smoothed', value: a.soft}, {
        label: 'Best test',
        value: best && known(best.accuracy) ? percent(best.accuracy) + ', epoch ' + +best.epoch.toFixed(1) : 'none'
      },
      target && {
        kind: 'target',
        colour: 'var(--ok)',
        label: 'Target ' + percent(target),
        value: hit ? 'reached, epoch ' + +hit.epoch.toFixed(1) : 'not reached yet'
      }
    ]);
  }

  return {
    node,
    point: drawRails,
    update() {
      drawKey();
      drawLoss();
      drawAccuracy();
      drawRails();
    }
  };
}

function none() {
  return {x: [], min: [], max: [], mean: [], total: 0};
}

export function visible(xs, [a, b]) {
  const out = [];
  for (let i = 0; i < xs.length; i++) {
    if (xs[i] >= a && xs[i] <= b) {
      out.push(i);
    }
  }
  return out;
}
