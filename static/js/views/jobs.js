/* The overview: opens on what is running. A sentence about the cluster, running jobs with their verdict, waiting jobs
   with what they wait for, finished ones, and the nodes at a glance. */
import {get, job as path} from '../api.js';
import {fill, h, keyed, say, throttle} from '../dom.js';
import {listen} from '../events.js';
import {miniFinish, sparkline} from '../figures.js';
import {clock, duration, known, loss, percent, plural, seconds, three, when, whole} from '../format.js';
import {icon} from '../icons.js';
import {remaining} from '../job/head.js';
import {NodeKey} from '../nodekey.js';
import {active, ended, nodeState, pill, setPill, waiting} from '../states.js';
import {equalSplit, stepTimes, verdict} from '../verdict.js';

import {emptyPage} from './empty.js';

const SPARKS_MS = 5000;
const PAGE = 50;

function strategyLine(job) {
  const spec = job.spec || {};
  const n = (job.workers || []).length || spec.workers || 1;
  const rate = job.metrics?.samples_per_second;
  return [
    (spec.strategy?.type || 'sync') + ', ' + (spec.batching?.policy || 'dynamic'),
    plural(n, spec.cluster ? 'virtual node' : 'node'),
    rate > 0 && (rate >= 999.5 ? whole(rate) : three(rate)) + ' samples/s'
  ].filter(Boolean)
      .join(' · ');
}

const address = (job) => '#/jobs/' + job.id;
const jobLink = (job) => h('a', {class: 'job-link', href: address(job), text: job.name});

/* The properties of a row that as a whole is a link to its job. */
function leadsTo(job) {
  return {
    class: 'link',
    data: {job: job.id},
    on: {
      click: (e) => {
        if (!e.target.closest('a')) {
          location.hash = address(job);
        }
      }
    }
  };
}

export async function show(root, route) {
  document.title = 'Jobs · Evenstep';
  const state = {jobs: new Map(), nodes: [], assignments: new Map(), sparks: new Map(), turns: new Map(), next: null, q: ''};
  const sentence = h('h1', {class: 'lead'});
  const evidence = h('p', {class: 'sub'});
  const find = h('input', {
    type: 'search',
    id: 'find',
    placeholder: 'Find jobs and nodes',
    'aria-label': 'Find jobs and nodes',
    on: {input: throttle(() => search(), 200)}
  });
  const runList = h('div', {class: 'run-list'});
  const running = sheet('Running', runList);
  const waitBody = h('tbody');
  const waitingSheet = sheet(
      'Waiting',
      h('div', {class: 'table-row'},
        h('table', {class: 'wait-table'}, h('caption', {class: 'sr', text: 'Waiting jobs'}),
          h('thead', {class: 'sr'},
            h('tr', null,
              ['Place', 'Job', 'Strategy', 'Waits for', 'Priority'].map((t) => h('th', {scope: 'col', text: t})))),
          waitBody)),
      'in the order they start');
  const doneBody = h('tbody');
  const more =
      h('button', {type: 'button', class: 'btn small', text: 'Show more', hidden: true, on: {click: () => readMore()}});
  const done = sheet(
      'Finished',
      h('div', {class: 'table-row'},
        h('table', null, h('caption', {class: 'sr', text: 'Finished jobs'}),
          h('thead', null,
            h('tr', null, h('th', {scope: 'col', text: 'State'}), h('th', {scope: 'col', text: 'Job'}),
              h('th', {scope: 'col', class: 'hide-phone', text: 'Strategy'}),
              h('th', {class: 'num hide-phone', scope: 'col', text: 'Nodes'}),
              h('th', {class: 'num', scope: 'col', text: 'Best test'}),
              h('th', {class: 'num hide-phone', scope: 'col', text: 'Took'}),
              h('th', {class: 'num', scope: 'col', text: 'Ended'}))),
          doneBody),
        more));
  const nodeList = h('div', {class: 'node-list'});
  const nodesSheet = sheet('Nodes', nodeList);
  const page =
      h('div', null,
        h('div', {class: 'head overview-lead'}, h('div', {class: 'title'}, h('div', null, sentence, evidence)),
          h('div', {class: 'finder'}, find)),
        h('div', {class: 'split'}, h('div', null, running.node, waitingSheet.node, done.node),
          h('div', null, nodesSheet.node)));
  const empty = emptyPage(() => state.nodes);

  function sheet(title, content, note = '') {
    const count = h('span', {class: 'note', text: note});
    return {
      node:
          h('section', {class: 'sheet', 'aria-label': title},
            h('div', {class: 'sheet-head'}, h('h2', {text: title}), count), content),
      count
    };
  }

  /* ---- reading ---------------------------------------------------------------------------------------------- */

  async function readJobs() {
    const answer = await get('jobs', {limit: PAGE, q: state.q});
    state.jobs = new Map(answer.jobs.map((j) => [j.id, j]));
    state.next = answer.next;
    if (!state.q) { /* what runs or waits is never on a later page */
      for (const s of ['running', 'launching', 'queued', 'paused']) {
        if (answer.next) {
          (await get('jobs', {state: s, limit: 100})).jobs.forEach((j) => state.jobs.set(j.id, j));
        }
      }
    }
  }

  async function readMore() {
    const answer = await get('jobs', {limit: PAGE, q: state.q, cursor: state.next});
    answer.jobs.forEach((j) => state.jobs.set(j.id, j));
    state.next = answer.next;
    draw();
  }

  async function readNodes() {
    state.nodes = (await get('nodes')).nodes;
  }

  async function readJob(id) {
    const turn = (state.turns.get(id) || 0) + 1;
    state.turns.set(id, turn);
    try {
      const job = await get(path(id));
      if (turn === state.turns.get(id)) { /* else a later change is being read */
        state.jobs.set(id, job);
      }
    } catch (e) {
      if (e.status === 404) {
        state.jobs.delete(id);
      }
    }
    draw();
  }

  async function readSparks() {
    clearTimeout(state.timer);
    for (const job of [...state.jobs.values()].filter((j) => active(j.state))) {
      try {
        const answer = await get(path(job.id, 'series'), {names: 'train_loss,test_accuracy', x: 'step', points: 60});
        state.sparks.set(job.id, Object.fromEntries(answer.series.map((s) => [s.name, s])));
        if (!state.assignments.has(job.id)) {
          state.assignments.set(job.id, (await get(path(job.id, 'assignments'))).assignments);
        }
      } catch (e) { /* the row goes on without */
      }
    }
    draw();
    if (route.alive()) {
      state.timer = setTimeout(() => (document.hidden ? readSparksLater() : readSparks()), SPARKS_MS);
    }
  }

  function readSparksLater() {
    state.timer = setTimeout(readSparks, SPARKS_MS);
  }

  async function search() {
    state.q = find.value.trim();
    await readJobs().catch(() => {});
    draw();
  }

  /* ---- drawing ---------------------------------------------------------------------------------------------- */

  function makeRun(job) {
    const name = h('a', {href: address(job), text: job.name});
    const first = pill(job.state);
    const row = {
      name,
      pill: first,
      facts: h('p', {class: 'quiet'}),
      says: h('p', {class: 'says'}),
      epoch: h('b'),
      percent: h('span'),
      bar: h('i'),
      rest: h('p', {class: 'quiet'}),
      loss: h('b'),
      test: h('b'),
      step: h('b'),
      lossLine: sparkline(120, 44, 'train loss over the run'),
      testLine: sparkline(120, 44, 'test accuracy over the run'),
      finish: h('div')
    };
    row.node =
        h('article', {class: 'run-row', data: {job: job.id}},
          h('div', null,
            h('h3', null, name, row.pill, job.spec?.cluster && h('span', {class: 'tag', text: 'virtual cluster'})),
            row.facts, row.says),
          h('div', null, h('p', {class: 'pair'}, row.epoch, row.percent), h('div', {class: 'progress thin'}, row.bar),
            row.rest),
          h('div', null, h('p', {class: 'pair'}, h('span', {text: 'Train loss'}), row.loss), row.lossLine.node),
          h('div', null, h('p', {class: 'pair'}, h('span', {text: 'Test'}), row.test), row.testLine.node),
          h('div', null, h('p', {class: 'pair'}, h('span', {text: 'One step'}), row.step), row.finish));
    return row;
  }

  function updateRun(row, job) {
    row.pill = setPill(row.pill, job.state);
    say(row.facts, strategyLine(job));
    const names = (job.workers || []).map((w) => w.node);
    const key = new NodeKey(names);
    const v = verdict(job, state.assignments.get(job.id) || []);
    const text = v.parts.map((p) => p.node || p).join('');
    if (row.said !== text && !(row.saidKey === v.key && performance.now() - (row.saidAt || 0) < 10000)) {
      Object.assign(row, {said: text, saidKey: v.key, saidAt: performance.now()});
      fill(row.says, v.parts.map((p) => (typeof p === 'string' ? p : [key.mark(p.node), h('b', {text: p.node})])));
    }
    const p = job.progress || {};
    say(row.epoch,
        p.step > 0 ? 'Epoch ' + Math.min(p.epochs, Math.floor(p.epoch) + 1) + ' of ' + p.epochs :
                     plural(p.epochs || job.spec?.epochs || 1, 'epoch'));
    say(row.percent, p.step > 0 ? percent(p.fraction, 0) : '');
    row.bar.style.width = 100 * (p.fraction || 0) + '%';
    const rest = remaining(job);
    say(row.rest,
        known(rest) ? 'ends about ' + clock(new Date(Date.now() + rest * 1000)) + ', in ' + duration(rest) :
            job.state === 'launching' ? 'is being started' :
                                        '');
    const m = job.metrics || {};
    say(row.loss, known(m.train_loss) ? loss(m.train_loss) : 'none yet');
    say(row.test, known(m.test_accuracy) ? percent(m.test_accuracy) : 'none yet');
    const sparks = state.sparks.get(job.id) || {};
    if (row.drawnSparks !== sparks) {
      row.drawnSparks = sparks;
      row.lossLine.set(sparks.train_loss?.x || [], sparks.train_loss?.mean || []);
      row.testLine.set(sparks.test_accuracy?.x || [], sparks.test_accuracy?.mean || []);
    }
    const steps = stepTimes(job.workers || []);
    const equals = equalSplit(job.workers || [], job.spec?.batching?.global_batch || 0);
    const longest = Math.max(0, ...steps.map((s) => s.all));
    say(row.step, longest > 0 ? seconds(longest) : 'none yet');
    if (longest > 0) {
      miniFinish(row.finish, steps.map((s, i) => ({all: s.all, equal: equals[i], colour: key.colour(s.node)})));
    }
  }

  function drawDone(jobs) {
    keyed(doneBody, jobs, (j) => j.id, (job) => {
      const best = job.metrics?.test_accuracy;
      const took = job.started && job.finished ? (new Date(job.finished) - new Date(job.started)) / 1000 : NaN;
      return h(
          'tr', leadsTo(job), h('td', null, pill(job.state)), h('td', null, jobLink(job)), h('td', {
            class: 'quiet hide-phone',
            text: (job.spec?.strategy?.type || 'sync') + ', ' + (job.spec?.batching?.policy || 'dynamic')
          }),
          h('td', {class: 'num hide-phone', text: String(job.spec?.workers || (job.workers || []).length || 1)}),
          h('td', {class: 'num' + (known(best) ? '' : ' quiet'), text: percent(best)}),
          h('td', {class: 'num hide-phone', text: duration(took)}),
          h('td', {class: 'num quiet', text: when(job.finished)}));
    });
  }

  function drawWaiting(jobs) {
    keyed(
        waitBody, jobs, (j) => j.id + j.state + j.priority,
        (job) =>
            h('tr', leadsTo(job), h('td'), h('td', null, jobLink(job)),
              h('td', {class: 'quiet hide-phone', text: strategyLine(job)}), h('td', {class: 'why'}),
              h('td',
                {class: 'num quiet hide-phone', text: job.priority ? 'priority ' + job.priority : 'priority normal'})),
        (row, job, i) => {
          say(row.firstChild, String(i + 1));
          const why = job.state === 'paused' ?
              'paused' :
              job.waiting || 'waits for ' + plural(job.spec?.workers || 1, 'free node');
          const cell = row.querySelector('.why');
          if (cell.dataset.key !== why) {
            cell.dataset.key = why;
            fill(
                cell,
                h('span', {class: 'name'}, icon(job.state === 'paused' ? 'pause' : 'clock', 12),
                  h('span', {text: why})));
          }
        });
  }

  function drawNodes() {
    const q = state.q.toLowerCase();
    const shown = state.nodes.filter((n) => !q || n.name.toLowerCase().includes(q));
    keyed(
        nodeList, shown, (n) => n.name,
        (n) => {
          const place = h('span');
          const job = h('small');
          return {
            node:
                h('div', {class: 'node-line', data: {node: n.name}}, place, h('b', {class: 'strong', text: n.name}),
                  h('span', {class: 'quiet', text: n.device}), job),
            place,
            job
          };
        },
        (row, n) => {
          const s = nodeState(n.state);
          if (row.place.dataset.state !== n.state) {
            row.place.dataset.state = n.state;
            fill(row.place, s.icon);
          }
          say(row.job, n.job ? state.jobs.get(n.job)?.name || n.job : s.text);
        });
    if (!shown.length) {
      fill(nodeList, h('p', {
             class: 'quiet',
             text: q ? 'No node is called so.' :
                       'No node has registered yet. Start evenstep-agent on a machine, or serve with --local-node.'
           }));
      nodeList.keyedNodes = null;
    }
    const by = (s) => state.nodes.filter((n) => n.state === s).length;
    say(nodesSheet.count,
        [
          [by('busy'), 'busy'], [by('ready'), 'free'], [by('draining'), 'drained'], [by('disabled'), 'disabled'],
          [by('lost'), 'lost']
        ].filter(([n]) => n)
            .map(([n, t]) => n + ' ' + t)
            .join(', '));
  }

  function drawSentence(run, wait) {
    const busy = state.nodes.filter((n) => n.state === 'busy').length;
    const all = state.nodes.length;
    const virtual = run.filter((j) => j.spec?.cluster).length;
    const n = run.length;
    say(sentence,
        n ? (n === 1 ? 'One job trains' : n + ' jobs train') +
                (virtual === n ? ' on virtual nodes' : ' on ' + busy + ' of ' + plural(all, 'node')) +
                (wait.length ? ', ' + wait.length + (wait.length === 1 ? ' waits.' : ' wait.') : '.') :
            wait.length ? 'Nothing runs; ' + (wait.length === 1 ? 'one job waits.' : wait.length + ' jobs wait.') :
                          'Nothing runs. ' +
                (all ? (all === 1 ? 'The node is free.' : 'All ' + plural(all, 'node') + ' are free.') :
                       'There is no node yet.'));
    const rests = run.map(remaining).filter(known);
    const share = run.flatMap((j) => stepTimes(j.workers || [])).filter((s) => s.all > 0);
    const busyShare = share.length ? share.reduce((sum, s) => sum + s.compute / s.all, 0) / share.length : NaN;
    say(evidence, [
      known(busyShare) && 'At present the busy nodes spend ' + percent(busyShare, 0) + ' of a step computing.',
      rests.length && wait.length &&
          'The next place in the queue opens about ' + clock(new Date(Date.now() + Math.min(...rests) * 1000)) + '.'
    ].filter(Boolean).join(' '));
  }

  function drawNow() {
    if (!route.alive()) {
      return;
    }
    const jobs = [...state.jobs.values()];
    if (jobs.length === 0 && !state.q) {
      fill(root, empty);
      return;
    }
    if (!page.isConnected) {
      fill(root, page);
    }
    const run = jobs.filter((j) => active(j.state));
    const wait = jobs.filter((j) => waiting(j.state))
                     .sort(
                         (a, b) => (a.state === 'paused') - (b.state === 'paused') || b.priority - a.priority ||
                             (a.created < b.created ? -1 : 1));
    const over = jobs.filter((j) => ended(j.state))
                     .sort((a, b) => ((a.finished || a.created) < (b.finished || b.created) ? 1 : -1));
    drawSentence(run, wait);
    running.node.hidden = run.length === 0;
    waitingSheet.node.hidden = wait.length === 0;
    done.node.hidden = over.length === 0;
    say(running.count, String(run.length));
    say(waitingSheet.count, wait.length + ', in the order they start');
    say(done.count, state.q ? 'found: ' + over.length : String(over.length) + (state.next ? ' newest' : ''));
    more.hidden = !state.next;
    keyed(runList, run, (j) => j.id, makeRun, updateRun);
    drawWaiting(wait);
    drawDone(over);
    drawNodes();
  }
  const draw = throttle(drawNow, 250);

  const stopListening = listen({
    live: ({job, data}) => {
      const at = state.jobs.get(job);
      if (at) {
        for (const k of ['progress', 'metrics', 'staleness']) {
          at[k] = {...at[k], ...data[k]};
        }
        at.workers = data.workers || at.workers;
        at.servers = data.servers || at.servers;
        draw();
      }
    },
    assignment: ({job, data}) => {
      const list = state.assignments.get(job);
      if (list) {
        list.push(data);
      }
    },
    job: ({job, data}) => readJob(job || data.id),
    deleted: ({job, data}) => {
      state.jobs.delete(job || data.id);
      draw();
    },
    node: throttleNodes(),
    gap: () => refresh(),
  });

  function throttleNodes() {
    return throttle(() => readNodes().then(draw).catch(() => {}), 500);
  }

  async function refresh() {
    await Promise.all([readJobs(), readNodes()]).catch(() => {});
    draw();
  }

  await Promise.all([readJobs(), readNodes()]);
  if (!route.alive()) {
    stopListening();
    return {};
  }
  drawNow();
  readSparks();
  if (route.params.has('find')) {
    find.focus();
  }
  return {
    close() {
      stopListening();
      draw.cancel();
      clearTimeout(state.timer);
    }
  };
}
