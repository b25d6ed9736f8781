/* Runs side by side: A, B, C …, by letters and colours. The sentence names the winner and why; charts by time first;
   then the results with the best marked and only those settings that differ. The address keeps the choice. */
import {get, job as path} from '../api.js';
import {Chart} from '../chart/chart.js';
import {ChartGroup} from '../chart/group.js';
import {niceRange} from '../chart/scale.js';
import {smooth, union} from '../chart/smooth.js';
import {fill, h, keyed, say, segment, throttle} from '../dom.js';
import {listen} from '../events.js';
import {histogram} from '../figures.js';
import {duration, known, loss, percent, plural, seconds, three, tick, whole} from '../format.js';
import {icon, SHAPES} from '../icons.js';
import {flatten} from '../job/folds.js';
import {active, ended, pill} from '../states.js';
import {stepTimes} from '../verdict.js';

import {pickRuns} from './compare_pick.js';

const LETTERS = 'ABCDEFGH';
const DASHES = [null, [7, 4], [2, 3], [9, 3, 2, 3], [4, 4], [12, 4], [1, 3], [6, 2, 1, 2]];
const POLL_MS = 5000;

function runKey(i) {
  return h('span', {class: 'run-key', text: LETTERS[i], style: {'--node': 'var(--n' + (i + 1) + ')'}});
}

export async function show(root, route) {
  document.title = 'Compare · Evenstep';
  let ids = (route.params.get('runs') || '').split(',').filter(Boolean).slice(0, 8);
  const group = new ChartGroup();
  group.axis = 'time';
  let runs = [];
  let smoothing = 0.8;
  let log = true;
  const cards = h('div', {class: 'runs'});
  const sentence = h('p', {class: 'lead'});
  const evidence = h('p', {class: 'sub evidence'});
  const table = (name, value, fmt) => () => {
    const rows = runs.flatMap(
        (r, i) => (r.series[name]?.x ||
                   []).map((x, k) => [x, [tick(Math.round(x * 1000) / 1000), LETTERS[i], fmt(value(r)[k])]]));
    return {
      heads: [
        group.axis === 'time'     ? 'Seconds' :
            group.axis === 'step' ? 'Step' :
                                    'Samples',
        'Run', name === 'train_loss' ? 'Train loss' : 'Test accuracy'
      ],
      rows: rows.sort((a, b) => b[0] - a[0]).map((r) => r[1])
    };
  };
  const accuracy = new Chart(group, {
    title: 'Test accuracy',
    height: 200,
    yTicks: 4,
    format: (v) => Math.round(v * 1000) / 10 + '\u202f%',
    table: table('test_accuracy', (r) => r.series.test_accuracy.mean, (v) => percent(v))
  });
  const lossChart = new Chart(group, {
    title: 'Train loss',
    height: 200,
    format: (v) => three(v).replace(/\.?0+$/, '') || '0',
    table: table('train_loss', (r) => r.series.train_loss.mean, loss)
  });
  const axis = segment('X axis', [['step', 'Step'], ['samples', 'Samples'], ['time', 'Time']], 'time', (v) => {
    group.axis = v;
    group.zoom = null;
    read();
  });
  const slider = h('input', {
    type: 'range',
    class: 'slider',
    min: 0,
    max: 0.98,
    step: 0.01,
    value: smoothing,
    'aria-label': 'Smoothing',
    on: {
      input() {
        smoothing = Number(slider.value);
        say(out, smoothing.toFixed(2));
        draw();
      }
    }
  });
  const out = h('output', {text: smoothing.toFixed(2)});
  const logs = segment('Loss axis', [['linear', 'Linear'], ['log', 'Log']], 'log', (v) => {
    log = v === 'log';
    draw();
  });
  const results = h('table');
  const differs = h('table', {class: 'differs'});
  const hist = h('div', {class: 'compare-hist'});
  const sheet =
      h('div', {class: 'sheet'}, h('section', {'aria-label': 'Verdict'}, sentence, evidence),
        h('div', {class: 'controls tight'}, h('span', {class: 'control'}, h('span', {text: 'X axis'}), axis),
          h('span', {class: 'control'}, h('span', {text: 'Smoothing'}), slider, out),
          h('span', {class: 'control'}, h('span', {text: 'Loss axis'}), logs)),
        h('section', {class: 'row'}, h('div', null, accuracy.node, lossChart.node),
          h('div', {class: 'rail-side'}, h('h3', {class: 'rail-head', text: 'Staleness, versions'}), hist,
            h('h3', {class: 'rail-head differs-head', text: 'What differs in the settings'}),
            h('div', {class: 'scroll'}, differs))),
        h('section', {'aria-label': 'Results'},
          h('div', {class: 'row-title'}, h('h2', {text: 'Results'}),
            h('span', {class: 'note', text: 'ticked: best in its line'})),
          h('div', {class: 'scroll'}, results)));
  const add =
      h('button',
        {type: 'button', class: 'btn', text: 'Add run', id: 'add-run', on: {click: () => pickRuns(ids, choose)}});
  const link = h('button', {
    type: 'button',
    class: 'btn',
    text: 'Copy link',
    on: {
      async click() {
        await navigator.clipboard?.writeText(location.href).then(() => say(link, 'Copied'), () => {});
      }
    }
  });
  const head =
      h('div', {class: 'head'}, h('div', {class: 'title'}, h('h1', {text: 'Compare'})),
        h('div', {class: 'actions'}, add, link));
  const empty =
      h('div', null, h('p', {class: 'lead', text: 'Choose two or more runs to compare.'}),
        h('p', {class: 'sub', text: 'Runs are shown by letter and colour; only the settings that differ are listed.'}));

  function choose(list) {
    ids = list;
    history.replaceState(null, '', '#/compare' + (ids.length ? '?runs=' + ids.join(',') : ''));
    layout();
    read();
  }

  function layout() {
    fill(root, head, ids.length ? [cards, sheet] : empty);
  }

  /* ---- reading ------------------------------------------------------------------------------------------------ */

  async function readRun(id) {
    const [job, series, tests, stale] = await Promise.all([
      get(path(id)), get(path(id, 'series'), {names: 'train_loss,test_accuracy,test_loss', x: group.axis, points: 380}),
      get(path(id, 'evaluations')).catch(() => ({evaluations: []})),
      get(path(id, 'staleness')).catch(() => ({nodes: []}))
    ]);
    return {
      id,
      job,
      series: Object.fromEntries(
          series.series.filter((c) => !c.node)
              .map((c) => [c.name, {...c, mean: c.mean.map(nan), min: c.min.map(nan), max: c.max.map(nan)}])),
      tests: tests.evaluations || [],
      staleness: stale.nodes || []
    };
  }

  async function read() {
    if (!ids.length) {
      return;
    }
    const found = await Promise.all(ids.map((id) => readRun(id).catch((e) => ({id, gone: e.message}))));
    if (!route.alive()) {
      return;
    }
    runs = found.filter((r) => !r.gone);
    if (runs.length < found.length) {
      ids = runs.map((r) => r.id);
    }
    draw();
  }

  /* ---- drawing ------------------------------------------------------------------------------------------------ */

  function drawCards() {
    keyed(
        cards, runs, (r) => r.id + r.job.state,
        (r) =>
            h('div', {class: 'run-card'}, runKey(runs.indexOf(r)),
              h('div', null, h('a', {href: '#/jobs/' + r.id, text: r.job.name}), h('p', {
                  text: (r.job.spec?.strategy?.type || 'sync') + ', ' + (r.job.spec?.batching?.policy || 'dynamic') +
                      ' · ' + plural((r.job.workers || []).length || r.job.spec?.workers || 1, 'node')
                })),
              pill(r.job.state),
              h('button', {
                type: 'button',
                class: 'btn ghost icon',
                'aria-label': 'Take ' + r.job.name + ' out',
                title: 'Take out',
                on: {click: () => choose(ids.filter((id) => id !== r.id))}
              },
                icon('cross', 12))));
  }

  function drawCharts() {
    const colour = (i) => 'var(--n' + (i + 1) + ')';
    const xs = runs.flatMap((r) => Object.values(r.series).map((c) => c.x[c.x.length - 1]).filter(known));
    group.setFull(0, Math.max(1e-9, ...xs));
    const tests = runs.map((r) => ({x: r.series.test_accuracy?.x || [], y: r.series.test_accuracy?.mean || []}));
    const shown = tests.flatMap((t) => t.y).filter(known);
    accuracy.set({
      rows: union(tests),
      lines: runs.map(
          (r, i) =>
              ({label: LETTERS[i], colour: colour(i), width: 2, dash: DASHES[i], shape: SHAPES[i], shapeSize: 3})),
      range: shown.length ? niceRange(shown, {pad: 0.08}).map((v, i) => (i ? Math.min(1.01, v) : Math.max(0, v))) :
                            [0, 1],
      ends: tests.map((t, i) => [t, i]).filter(([t]) => t.y.length).map(([t, i]) => ({
                                                                          y: t.y[t.y.length - 1],
                                                                          text: percent(t.y[t.y.length - 1]),
                                                                          bold: true,
                                                                          mark: LETTERS[i],
                                                                          icon: () => runKey(i)
                                                                        })),
      subtitle: group.axis === 'time' ? 'by time since start' : 'by ' + group.axis,
      empty: shown.length ? '' : 'No evaluation has ended yet.'
    });
    const losses = runs.map((r) => r.series.train_loss || {x: [], mean: [], min: [], max: []});
    const soft = losses.map((c) => smooth(c, smoothing));
    const all = losses.flatMap((c, i) => [...c.mean, ...soft[i]]).filter(known);
    lossChart.set({
      rows: union(losses.map((c, i) => ({x: c.x, y: soft[i]}))),
      lines: runs.map((r, i) => ({label: LETTERS[i], colour: colour(i), width: 2, dash: DASHES[i]})),
      band: losses.map((c, i) => ({...c, colour: colour(i), line: false})),
      log,
      range: niceRange(all, {log, pad: 0.04}),
      ends: soft.map((v, i) => [v, i]).filter(([v]) => v.length).map(([v, i]) => ({
                                                                       y: v[v.length - 1],
                                                                       text: loss(v[v.length - 1]),
                                                                       bold: true,
                                                                       mark: LETTERS[i],
                                                                       icon: () => runKey(i)
                                                                     })),
      subtitle: log ? 'log axis' : '',
      note: losses.some((c) => c.total_points > c.x.length) ? 'extremes kept' : '',
      empty: all.length ? '' : 'The first step has not ended yet.'
    });
  }

  function timeTo(run, goal) {
    const hit = run.tests.find((t) => t.accuracy >= goal);
    return hit ? hit.time : NaN;
  }

  /* The highest round accuracy that all runs with results have reached. */
  function commonGoal() {
    const best = runs.map((r) => Math.max(0, ...r.tests.map((t) => t.accuracy))).filter((v) => v > 0);
    return best.length > 1 ? Math.floor(Math.min(...best) * 100) / 100 : NaN;
  }

  function drawSentence() {
    const goal = commonGoal();
    const named = runs.map((r, i) => ({r, i, t: timeTo(r, goal)})).filter((x) => known(x.t)).sort((a, b) => a.t - b.t);
    const parts = [];
    if (runs.length < 2) {
      parts.push('Add another run to compare ', runKey(0), ' with.');
    } else if (named.length < 2) {
      parts.push('There is nothing to compare yet: fewer than two runs have a test result.');
    } else {
      const [first, ...rest] = named;
      parts.push(runKey(first.i), ' reaches ' + percent(goal, 0) + ' in ' + span(first.t));
      rest.forEach(
          (x, k) => parts.push(
              k === 0                   ? ', ' :
                  k === rest.length - 1 ? ' and ' :
                                          ', ',
              span(x.t - first.t) + ' before ', runKey(x.i)));
      parts.push('.');
    }
    fill(sentence, parts);
    const notes =
        runs.map((r, i) => {
              const steps = stepTimes(r.job.workers || []).filter((s) => s.all > 0);
              const wait = steps.length ? steps.reduce((sum, s) => sum + s.wait / s.all, 0) / steps.length : NaN;
              return [
                wait > 0.1 && 'Nodes of ' + LETTERS[i] + ' wait ' + percent(wait, 0) + ' of a step.',
                r.job.staleness?.node_mean > 0 &&
                    'Gradients of ' + LETTERS[i] + ' are ' + r.job.staleness.node_mean.toFixed(1) + ' versions old.'
              ].filter(Boolean)
                  .join(' ');
            })
            .filter(Boolean)
            .join(' ');
    say(evidence,
        notes + (runs.some((r) => active(r.job.state)) ? ' Runs that still train are taken as they are now.' : '') +
            (runs.length > 1 ? ' One run each: small differences may be chance.' : ''));
  }

  function drawResults() {
    const goal = commonGoal();
    const m = (r) => r.job.metrics || {};
    const took = (r) =>
        (r.job.started && r.job.finished ? (new Date(r.job.finished) - new Date(r.job.started)) / 1000 : NaN);
    const wait = (r) => {
      const steps = stepTimes(r.job.workers || []).filter((s) => s.all > 0);
      return steps.length ? steps.reduce((sum, s) => sum + s.wait / s.all, 0) / steps.length : NaN;
    };
    const lines = [
      known(goal) && ['Time to ' + percent(goal, 0) + ' test accuracy', (r) => timeTo(r, goal), span, -1],
      ['Best test accuracy', (r) => Math.max(...r.tests.map((t) => t.accuracy), -Infinity), (v) => percent(v), 1],
      ['Train loss, mean of the last updates', (r) => m(r).train_loss, loss, -1],
      [
        'Samples per second', (r) => (m(r).samples_per_second > 0 ? m(r).samples_per_second : NaN),
        (v) => (v >= 999.5 ? whole(v) : three(v)), 1
      ],
      ['One step of the slowest node', (r) => stepMost(r), seconds, -1],
      ['Waiting, share of a step', wait, (v) => percent(v), -1],
      ['Staleness, mean over nodes', (r) => r.job.staleness?.node_mean, (v) => v.toFixed(1), -1],
      ['Staleness, max', (r) => r.job.staleness?.max, whole, -1],
      ['Whole run', (r) => (ended(r.job.state) ? took(r) : NaN), span, -1],
      ['Restarts', (r) => r.job.restarts ?? 0, whole, -1]
    ].filter(Boolean);
    fill(
        results, h('caption', {class: 'sr', text: 'Results'}),
        h('thead', null,
          h('tr', null, h('th', {scope: 'col'}, h('span', {class: 'sr', text: 'Figure'})),
            runs.map((r, i) => h('th', {class: 'num', scope: 'col'}, runKey(i))))),
        h('tbody', null, lines.map(([name, value, fmt, sign]) => {
          const values = runs.map(value).map((v) => (Number.isFinite(v) ? v : NaN));
          const good = values.filter(known);
          const best =
              good.length > 1 && new Set(good).size > 1 ? (sign > 0 ? Math.max(...good) : Math.min(...good)) : NaN;
          return h(
              'tr', null, h('td', {text: name}),
              values.map(
                  (v) =>
                      h('td', {class: 'num' + (known(v) ? '' : ' quiet')},
                        v === best   ? h('span', {class: 'best'}, icon('check', 12), fmt(v)) :
                            known(v) ? fmt(v) :
                                       'none')));
        })));
  }

  function drawDiffers() {
    const flat = runs.map((r) => new Map(flatten(r.job.spec || {})));
    const keys = [...new Set(flat.flatMap((f) => [...f.keys()]))].filter(
        (k) => k !== 'name' && new Set(flat.map((f) => f.get(k))).size > 1);
    fill(
        differs, h('caption', {class: 'sr', text: 'Settings that differ'}),
        h('thead', null,
          h('tr', null, h('th', {scope: 'col'}, h('span', {class: 'sr', text: 'Setting'})),
            runs.map((r, i) => h('th', {class: 'num', scope: 'col'}, runKey(i))))),
        h('tbody', null,
          keys.length ? keys.map(
                            (k) =>
                                h('tr', null, h('td', {class: 'mono', text: k}),
                                  flat.map((f) => h('td', {class: 'num', text: f.get(k) ?? 'none'})))) :
                        h('tr', null, h('td', {
                            colspan: String(runs.length + 1),
                            class: 'quiet',
                            text: runs.length > 1 ? 'nothing but the name' : 'one run only'
                          }))));
  }

  function drawHistograms() {
    const sums = runs.map((r) => r.staleness.reduce((sum, n) => {
      (n.histogram || []).forEach((v, i) => {
        sum[i] = (sum[i] || 0) + v;
      });
      return sum;
    }, []));
    const bins = Math.max(8, ...sums.map((v) => v.length));
    fill(
        hist,
        runs.flatMap(
            (r, i) =>
                [runKey(i),
                 histogram(
                     Array.from(sums[i], (v) => v || 0), bins, NaN, 'var(--n' + (i + 1) + ')',
                     'staleness of run ' + LETTERS[i]),
                 h('span', {
                   class: 'quiet',
                   text: known(r.job.staleness?.p50) ?
                       'p50 ' + r.job.staleness.p50 + ', p95 ' + r.job.staleness.p95 + ', max ' + r.job.staleness.max :
                       'none'
                 })]));
  }

  function drawNow() {
    if (!route.alive() || !ids.length) {
      return;
    }
    drawCards();
    drawCharts();
    drawSentence();
    drawResults();
    drawDiffers();
    drawHistograms();
  }
  const draw = throttle(drawNow, 250);

  layout();
  await read();
  const timer = setInterval(() => {
    if (!document.hidden && runs.some((r) => active(r.job.state))) {
      read().catch(() => {});
    }
  }, POLL_MS);
  const stop = listen({gap: () => read().catch(() => {}), job: ({job}) => ids.includes(job) && read().catch(() => {})});
  return {
    close() {
      clearInterval(timer);
      stop();
      draw.cancel();
      group.close();
    }
  };
}

/* Short ones with digits, long ones in words. */
function span(v) {
  return v < 60 ? seconds(v) : duration(v);
}

function nan(v) {
  return typeof v === 'number' ? v : NaN;
}

function stepMost(run) {
  const all = stepTimes(run.job.workers || []).map((s) => s.all).filter((v) => v > 0);
  return all.length ? Math.max(...all) : NaN;
}
