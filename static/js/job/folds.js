/* Folded rows at the end of the sheet: workers and servers in full, the configuration, artifacts. */
import {get, job as path} from '../api.js';
import {fill, h, keyed, say} from '../dom.js';
import {age, bytes, known, percent, plural, seconds, three, whole} from '../format.js';
import {icon} from '../icons.js';
import {ended} from '../states.js';

import {dataAge} from './age.js';

export function fold(id, title) {
  const note = h('span', {class: 'note'});
  const body = h('div', {class: 'fold-body', id: id + '-body'});
  const box =
      h('details', {class: 'fold', id}, h('summary', null, icon('right', 12), h('h2', {text: title}), note), body);
  return {
    node: box,
    note,
    body,
    get open() {
      return box.open;
    },
    onOpen(fn) {
      box.addEventListener('toggle', () => box.open && fn());
    }
  };
}

/* Every value of a nested document by its pointer. */
export function flatten(value, at = '') {
  if (value !== null && typeof value === 'object' &&
      !(Array.isArray(value) && value.every((v) => v === null || typeof v !== 'object'))) {
    return Object.entries(value).flatMap(([k, v]) => flatten(v, at ? at + '/' + k : k));
  }
  return [[at, Array.isArray(value) ? value.join(', ') : value === null ? 'none' : String(value)]];
}

export function make(ui) {
  const {data, key} = ui;
  const workers = fold('workers', 'Workers');
  const config = fold('configuration', 'Configuration');
  const artifacts = fold('artifacts', 'Artifacts');
  const tbody = h('tbody');
  const heads = [
    ['Rank', 'num'], ['Node', ''], ['Device', ''], ['State', ''], ['Minibatch', 'num'], ['Samples/s', 'num'],
    ['Samples', 'num'], ['Updates', 'num'], ['Compute', 'num'], ['Exchange', 'num'], ['Wait', 'num'],
    ['Staleness', 'num'], ['Seen', 'num']
  ];
  fill(
      workers.body,
      h('div', {class: 'scroll'},
        h('table', {class: 'dense'}, h('caption', {class: 'sr', text: 'Workers and servers'}),
          h('thead', null, h('tr', null, heads.map(([t, cls]) => h('th', {class: cls, scope: 'col', text: t})))),
          tbody)));
  const node = h('div', {class: 'folds'}, workers.node, config.node, artifacts.node);
  let configFor = null;

  function drawWorkers() {
    const job = data.job;
    const all = [...(job.workers || []), ...(job.servers || []).map((s) => ({...s, server: true}))];
    say(workers.note,
        plural((job.workers || []).length, 'worker') +
            ((job.servers || []).length ? ', ' + plural(job.servers.length, 'server') : '') +
            (job.rows_dropped > 0 ? ', ' + plural(job.rows_dropped, 'row') + ' dropped on the way' : ''));
    if (!workers.open) {
      return;
    }
    keyed(
        tbody, all, (w) => w.rank,
        (w) => {
          const cells = heads.map(([, cls]) => h('td', {class: cls}));
          fill(cells[1], w.server ? h('span', {class: 'quiet', text: 'server on ' + w.host}) : key.label(w.node));
          return {node: h('tr', null, cells), cells};
        },
        (row, w) => {
          const st = w.staleness || {};
          const texts = [
            String(w.rank), null, w.device || 'none', w.state || 'none', w.server ? '' : String(w.batch),
            w.server ? '' : three(w.samples_per_second),
            w.server             ? '' :
                known(w.samples) ? whole(w.samples) :
                                   '',
            w.server             ? 'version ' + whole(w.version) :
                known(w.updates) ? whole(w.updates) :
                                   '',
            w.server ? percent(w.busy_fraction, 0) + ' busy' : seconds(w.compute_seconds),
            w.server ? '' : seconds(w.exchange_seconds), w.server ? '' : seconds(w.wait_seconds),
            w.server || !known(st.mean) ? '' : st.mean.toFixed(1) + ', max ' + whole(st.max),
            ended(job.state) ? '' : age(dataAge(data, w.heartbeat_age_seconds))
          ];
          texts.forEach((t, i) => t !== null && say(row.cells[i], t));
        });
  }

  function drawConfig() {
    const spec = data.job.spec || {};
    const flat = flatten(spec);
    say(config.note, 'as understood: ' + plural(flat.length, 'setting') + ', defaults included');
    if (configFor === data.job.spec || !config.open) {
      return;
    }
    configFor = data.job.spec;
    const copy = h('button', {
      type: 'button',
      class: 'btn small',
      text: 'Copy as JSON',
      on: {
        async click() {
          await navigator.clipboard?.writeText(JSON.stringify(spec, null, 2)).catch(() => {});
          say(copy, 'Copied');
        }
      }
    });
    fill(
        config.body,
        h('p', {class: 'actions'}, copy,
          h('a', {class: 'btn small', href: '#/new?from=' + data.id, text: 'New job from this'})),
        h('dl', {class: 'settings'},
          flat.map(([k, v]) => h('div', null, h('dt', {class: 'mono', text: k}), h('dd', {text: v})))));
  }

  async function drawArtifacts() {
    let list;
    try {
      list = (await get(path(data.id, 'artifacts'))).artifacts || [];
    } catch (e) {
      say(artifacts.note, e.message);
      return;
    }
    say(artifacts.note,
        list.length === 0 ? (ended(data.job.state) ? 'none was written' : 'written when the job ends') :
                            list.map((a) => a.name + ' (' + bytes(a.bytes) + ')').join(', '));
    fill(
        artifacts.body,
        list.length > 0 &&
            h('div', {class: 'scroll'},
              h('table', {class: 'dense'}, h('caption', {class: 'sr', text: 'Artifacts'}),
                h('thead', null,
                  h('tr', null, h('th', {scope: 'col', text: 'File'}),
                    h('th', {class: 'num', scope: 'col', text: 'Size'}), h('th', {scope: 'col', text: 'SHA-256'}))),
                h('tbody', null,
                  list.map(
                      (a) =>
                          h('tr', null,
                            h('td', null, h('a', {
                                href: '/api/v1/' + path(data.id, 'artifacts') + '/' + encodeURIComponent(a.name),
                                download: a.name,
                                text: a.name
                              })),
                            h('td', {class: 'num', text: bytes(a.bytes)}),
                            h('td', {class: 'mono quiet', text: a.sha256 || 'none'})))))));
  }

  workers.onOpen(drawWorkers);
  config.onOpen(drawConfig);
  artifacts.onOpen(drawArtifacts);
  return {
    node,
    update(what) {
      drawWorkers();
      drawConfig();
      if (what.has('all') || what.has('job')) {
        drawArtifacts();
      }
    }
  };
}
