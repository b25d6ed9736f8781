/* The job's page: head, verdict with the node table, numbers, chart controls, chart rows, last steps, configuration,
   artifacts, logs. Each part is a module in job/ with the same form: make(context) gives {node, update(what), point?,
   close?}. Updates are drawn at most four times a second; where nothing but the pointer over the charts has moved, only
   parts that have `point` are told. */
import {ChartGroup} from '../chart/group.js';
import {fill, h, throttle} from '../dom.js';
import {stream} from '../events.js';
import * as controls from '../job/controls.js';
import * as folds from '../job/folds.js';
import * as head from '../job/head.js';
import * as learning from '../job/learning.js';
import * as logs from '../job/logs.js';
import * as minibatch from '../job/minibatch.js';
import * as staleness from '../job/staleness.js';
import * as steps from '../job/steps.js';
import * as strategy from '../job/strategy.js';
import * as summary from '../job/summary.js';
import * as throughput from '../job/throughput.js';
import {JobData} from '../jobdata.js';
import {cutsOf, marksOf} from '../marks.js';
import {NodeKey} from '../nodekey.js';
import {perSample, verdict} from '../verdict.js';

const DRAW_MS = 250;

/* With more than eight nodes up to eight are picked into colour: the straggler always, the fastest, and those that were
 * chosen. */
function pick(ui, straggler) {
  const workers = (ui.data.job.workers || []).filter((w) => Number.isFinite(perSample(w)));
  if (workers.length <= 8) {
    return ui.picked;
  }
  const fastest = workers.reduce((p, c) => (perSample(c) < perSample(p) ? c : p)).node;
  const first = ui.picked.length ? ui.picked : [fastest];
  return [...new Set([...first, straggler || fastest])].slice(-8);
}

export async function show(root, route) {
  const narrow = window.innerWidth <= 700;
  const data = new JobData(route.args[0], narrow ? 144 : 380);
  document.title = 'Job · Evenstep';
  await data.load();
  if (!route.alive()) {
    return {};
  }
  const group = new ChartGroup();
  const key = new NodeKey(data.nodes());
  const ui = {
    data,
    group,
    key,
    smoothing: 0.8,
    log: true,
    marks: 'all',
    narrow,
    cuts: [],
    follow: true,
    chosen: null,
    picked: []
  };
  ui.choose = (node) => {
    ui.chosen = ui.chosen === node ? null : node;
    ui.picked = key.many && ui.chosen && !ui.picked.includes(node) ? [...ui.picked, node].slice(-8) : ui.picked;
    root.dataset.chosen = ui.chosen || '';
    draw();
  };
  const parts =
      [head, summary, controls, learning, staleness, minibatch, throughput, strategy, steps, folds].map((m) => m.make(ui));
  const [headPart, summaryPart, ...chartParts] = parts;
  const folded = chartParts.pop();
  const drawer = logs.make(ui);
  parts.push(drawer);
  const sheet =
      h('div', {class: 'sheet job-sheet'}, summaryPart.node, h('div', {class: 'rows'}, chartParts.map((p) => p.node)),
        folded.node);
  fill(root, headPart.node, sheet, drawer.node);

  const changes = new Set(['all']);
  function drawNow() {
    if (!route.alive()) {
      return;
    }
    const names = data.nodes();
    const picked = pick(ui, names.length > 8 ? verdict(data.job, data.assignments).straggler : null);
    if (names.join('|') !== key.names.join('|') || picked.join('|') !== ui.pickedText) {
      ui.picked = picked;
      ui.pickedText = picked.join('|');
      key.set(names, picked);
      changes.add('all');
    }
    const full = data.extent();
    if (ui.follow && group.hoverX === null) {
      group.setFull(0, full);
    }
    ui.newest = full;
    group.marks = marksOf(data, ui.marks);
    group.faint = stream.state === 'away';
    ui.cuts = cutsOf(group.marks);
    const what = new Set(changes);
    changes.clear();
    document.title = data.job.name + ' · Evenstep';
    const pointed = what.size === 1 && what.has('hover');
    parts.forEach((p) => (pointed ? p.point?.() : p.update(what)));
  }
  const drawSoon = throttle(drawNow, DRAW_MS);
  function draw(what = 'all') {
    changes.add(what);
    drawSoon();
  }
  ui.draw = draw;
  data.addEventListener('change', (e) => {
    if (data.deleted) {
      location.hash = '#/';
    } else {
      draw(e.detail);
    }
  });
  let zoomTimer = 0;
  group.addEventListener('zoom', (e) => {
    clearTimeout(zoomTimer);
    zoomTimer = setTimeout(() => data.setAxis(data.axis, e.detail).catch(() => {}), 200);
    const params = new URLSearchParams(
        e.detail ? {x: data.axis, from: String(+e.detail[0].toPrecision(8)), to: String(+e.detail[1].toPrecision(8))} :
                   {});
    history.replaceState(null, '', '#/' + route.path + (e.detail ? '?' + params : ''));
    draw('zoom');
  });
  group.addEventListener('hover', () => draw('hover'));
  const onState = () => draw('all');
  stream.addEventListener('state', onState);
  data.start();
  drawNow();
  if (route.params.has('from')) {
    data.axis = route.params.get('x') || 'step';
    group.axis = data.axis;
    await data.setAxis(data.axis, null);
    group.setFull(0, data.extent());
    group.setZoom([Number(route.params.get('from')), Number(route.params.get('to'))]);
  }
  return {
    close() {
      drawSoon.cancel();
      clearTimeout(zoomTimer);
      stream.removeEventListener('state', onState);
      data.close();
      group.close();
      parts.forEach((p) => p.close?.());
    }
  };
}
