/* Nodes: who is there, what each does, how fast it was; drain and enable ask once where they stop something. Beneath
   the table the chosen node in full, and for the nodes of a running job the step time by minibatch: measured points and
   the fitted line a + k·b. */
import {get, post, remove} from '../api.js';
import {fill, h, keyed, say, segment, throttle} from '../dom.js';
import {listen} from '../events.js';
import {age, bytes, known, plural, sentence, three, whole} from '../format.js';
import {icon} from '../icons.js';
import {flatten} from '../job/folds.js';
import {active, nodeState} from '../states.js';

import {fitFigure} from './nodes_fit.js';

const POLL_MS = 2000;
const FILTERS = [
  ['all', 'All', () => true], ['busy', 'Busy', (n) => n.state === 'busy'],
  ['ready', 'Free', (n) => n.state === 'ready'],
  ['drained', 'Drained', (n) => n.state === 'draining' || n.state === 'disabled'],
  ['lost', 'Lost', (n) => n.state === 'lost']
];

/* What a GPU's driver tells, in few words: "87 % busy · 12 of 141 GB · 64 °C · 352 W". */
function gpuText(g) {
  if (!g) {
    return '';
  }
  const parts = [
    known(g.busy) && Math.round(g.busy * 100) + ' % busy',
    known(g.memory_used_bytes) && bytes(g.memory_used_bytes) + ' of ' + bytes(g.memory_bytes),
    known(g.celsius) && g.celsius + ' °C', known(g.watts) && Math.round(g.watts) + ' W'
  ];
  return ' · ' + parts.filter(Boolean).join(' · ');
}

/* A host whose agent asks to join and may not: why, and the way out. */
function makeRefusal(r) {
  const text = h('span');
  return {node: h('p', {class: 'notice', data: {tone: 'bad', host: r.host}}, icon('cross', 12), text), text};
}

function updateRefusal(row, r) {
  say(row.text,
      sentence('Host ' + r.host + (r.address ? ' at ' + r.address : '') + ' may not join: ' + r.message) +
          (r.hint ? ' ' + sentence(r.hint) : ''));
}

export async function show(root, route) {
  document.title = 'Nodes · Evenstep';
  const state = {nodes: [], refused: [], jobs: new Map(), filter: 'all', chosen: route.params.get('node'), readAt: 0};
  const summary = h('p', {class: 'sub'});
  const filter = segment('Show', FILTERS.map(([id, text]) => [id, text]), 'all', (id) => {
    state.filter = id;
    draw();
  });
  const tbody = h('tbody');
  const refused = h('div', {class: 'refused', role: 'status'});
  const fault = h('div', {role: 'alert'});
  const none = h('p', {class: 'quiet'});
  const detail = h('section', {class: 'node-detail', 'aria-label': 'Chosen node', hidden: true});
  const figure = fitFigure();
  const sheet =
      h('div', {class: 'sheet'},
        h('div', {class: 'scroll'},
          h('table', {class: 'nodes-table'}, h('caption', {class: 'sr', text: 'Nodes'}),
            h('thead', null,
              h('tr', null, ['', 'Node', 'State', 'Device', 'Host', 'Job'].map((t) => h('th', {scope: 'col', text: t})),
                ['Memory', 'Slowdown', 'Samples/s now', 'Seen'].map(
                    (t) => h('th', {class: 'num', scope: 'col', text: t})),
                h('th', {scope: 'col'}, h('span', {class: 'sr', text: 'Actions'})))),
            tbody),
          none, fault),
        figure.node, detail);
  fill(root, h('div', {class: 'head'}, h('div', {class: 'title'}, h('h1', {text: 'Nodes'})), filter), summary, refused, sheet);

  async function read() {
    const [{nodes, refused: turnedAway}, {jobs}] = await Promise.all([get('nodes'), get('jobs', {state: 'running', limit: 100})]);
    state.nodes = nodes;
    state.refused = turnedAway;
    state.readAt = performance.now();
    jobs.forEach((j) => state.jobs.set(j.id, j));
    for (const id of state.jobs.keys()) {
      if (!jobs.some((j) => j.id === id)) {
        state.jobs.delete(id);
      }
    }
    draw();
  }
  const readSoon = throttle(() => read().catch(() => {}), 500);

  async function act(name, what, button) {
    button.disabled = true;
    fill(fault);
    try {
      if (what === 'forget') {
        await remove('nodes/' + encodeURIComponent(name));
      } else {
        await post('nodes/' + encodeURIComponent(name) + '/' + what);
      }
      await read();
    } catch (e) {
      fill(fault, h('p', {class: 'notice', data: {tone: 'bad'}}, icon('cross', 12), h('span', {text: e.message})));
    }
    button.disabled = false;
  }

  function ask(node, button) {
    const job = node.job && (state.jobs.get(node.job)?.name || node.job);
    const choice = (verb, what) => {
      const b = h('button', {
        type: 'button',
        class: 'btn danger',
        data: {act: what},
        text: verb + ' ' + node.name,
        on: {click: () => act(node.name, what, b)}
      });
      return b;
    };
    const yes = choice('Drain', 'drain');
    const back = () => {
      fill(fault);
      button.focus();
    };
    fill(
        fault,
        h('div', {class: 'ask', on: {keydown: (e) => e.key === 'Escape' && back()}}, h('span', {
            text: 'Drain ' + node.name + '? It gets no further job' +
                (job ? '; “' + job + '” goes on until it ends.' : '.')
          }),
          h('span', {class: 'actions'}, yes, choice('Disable', 'disable'),
            h('button', {type: 'button', class: 'btn', text: 'Leave it', on: {click: back}}))));
    yes.focus();
  }

  function makeRow(n) {
    const row = {
      icon: h('td'),
      name: h('button', {
        type: 'button',
        class: 'plain strong',
        text: n.name,
        'aria-expanded': 'false',
        on: {
          click() {
            state.chosen = state.chosen === n.name ? null : n.name;
            draw();
          }
        }
      }),
      state: h('td'),
      job: h('td'),
      speed: h('td', {class: 'num'}),
      gpu: h('span', {class: 'quiet'}),
      seen: h('td', {class: 'num quiet'}),
      action: h('td', {class: 'num'})
    };
    row.node =
        h('tr', {data: {node: n.name}}, row.icon, h('td', null, row.name), row.state,
          h('td', {class: 'quiet'}, h('span', {text: n.device || 'none'}), row.gpu), h('td', {class: 'quiet', text: n.host || 'none'}),
          row.job, h('td', {class: 'num', text: bytes(n.memory_bytes)}),
          h('td', {class: 'num quiet', text: n.slowdown > 1 ? three(n.slowdown) + '×' : 'none'}), row.speed, row.seen,
          row.action);
    return row;
  }

  function updateRow(row, n) {
    const st = nodeState(n.state);
    const job = n.job ? state.jobs.get(n.job) : null;
    if (row.icon.dataset.state !== n.state + n.drained + n.disabled) {
      row.icon.dataset.state = n.state + n.drained + n.disabled;
      fill(row.icon, st.icon);
      const button = n.state === 'lost' ?
          h('button',
            {type: 'button', class: 'btn small', text: 'Forget', on: {click: () => act(n.name, 'forget', button)}}) :
          n.drained || n.disabled ?
          h('button',
            {type: 'button', class: 'btn small', text: 'Enable', on: {click: () => act(n.name, 'enable', button)}}) :
          h('button', {type: 'button', class: 'btn small', text: 'Drain', on: {click: () => ask(n, button)}});
      fill(row.action, button);
    }
    say(row.state, st.text);
    const jobText = n.job ? job?.name || n.job : 'none';
    if (row.job.dataset.key !== jobText) {
      row.job.dataset.key = jobText;
      fill(
          row.job,
          n.job ? h('a', {class: 'job-link', href: '#/jobs/' + n.job, text: jobText}) :
                  h('span', {class: 'quiet', text: 'none'}));
    }
    const worker = job?.workers?.find((w) => w.node === n.name);
    say(row.speed,
        worker && worker.samples_per_second > 0 ?
            (worker.samples_per_second >= 999.5 ? whole(worker.samples_per_second) : three(worker.samples_per_second)) :
            '');
    say(row.gpu, gpuText(n.gpu));
    say(row.seen, age(n.heartbeat_age_seconds));
    row.node.classList.toggle('chosen', state.chosen === n.name);
    row.name.setAttribute('aria-expanded', String(state.chosen === n.name));
  }

  function drawDetail() {
    const n = state.nodes.find((x) => x.name === state.chosen);
    detail.hidden = !n;
    if (n) {
      const rest = flatten(n)
                       .filter(([k]) => !['heartbeat_age_seconds', 'name'].includes(k) && !k.startsWith('gpu'))
                       .map(([k, v]) => [k.replace(/_/g, ' '), k === 'memory_bytes' ? bytes(Number(v)) : v]);
      const key = JSON.stringify(rest);
      if (detail.dataset.key !== key) {
        detail.dataset.key = key;
        fill(
            detail,
            h('div', {class: 'row-title'}, h('h2', {text: n.name}),
              h('span', {class: 'note', text: 'as it registered'})),
            h('dl', null,
              rest.map(([k, v]) => h('div', null, h('dt', {text: k}), h('dd', {text: v === '' ? 'none' : v})))));
      }
    }
  }

  function draw() {
    if (!route.alive()) {
      return;
    }
    const test = FILTERS.find(([id]) => id === state.filter)[2];
    [...filter.children].forEach((b, i) => say(b, FILTERS[i][1] + ' ' + state.nodes.filter(FILTERS[i][2]).length));
    const shown = state.nodes.filter(test);
    keyed(refused, state.refused, (r) => r.host, makeRefusal, updateRefusal);
    keyed(tbody, shown, (n) => n.name, makeRow, updateRow);
    say(none,
        state.nodes.length === 0 ?
            'No node has registered yet. Start evenstep-agent on a machine, or serve with --local-node NAME=cpu:THREADS.' :
            shown.length === 0 ? 'No node is in this state.' :
                                 '');
    const busy = state.nodes.filter((n) => n.state === 'busy').length;
    const lost = state.nodes.filter((n) => n.state === 'lost').length;
    say(summary,
        state.nodes.length ?
            busy + ' of ' + plural(state.nodes.length, 'node') + ' ' + (busy === 1 ? 'trains' : 'train') +
                (lost ? '; ' + lost + (lost === 1 ? ' has' : ' have') + ' not been heard of for more than 4 s.' :
                        '.') :
            '');
    drawDetail();
  }

  async function drawFit() {
    const job = [...state.jobs.values()].find((j) => active(j.state) && (j.workers || []).length > 0);
    await figure.read(job).catch(() => {});
  }

  const stop = listen({
    node: readSoon,
    job: readSoon,
    gap: readSoon,
    live: ({job, data}) => {
      const at = state.jobs.get(job);
      if (at) {
        at.workers = data.workers || at.workers;
        draw_();
      }
    }
  });
  const draw_ = throttle(draw, 500);
  await read();
  drawFit();
  const timer = setInterval(() => !document.hidden && read().catch(() => {}), POLL_MS);
  const fitTimer = setInterval(() => !document.hidden && drawFit(), 5000);
  return {
    close() {
      stop();
      clearInterval(timer);
      clearInterval(fitTimer);
      readSoon.cancel();
      draw_.cancel();
    }
  };
}
