/* Name, state, facts, actions, progress with the estimated end. Cancel asks once, in words that name what stops; what
   an action answered is said where it was asked for. */
import {job as path, post, remove} from '../api.js';
import {fill, h, say} from '../dom.js';
import {clock, duration, percent, plural, when, whole} from '../format.js';
import {icon} from '../icons.js';
import {active, ended, pill, setPill} from '../states.js';

export function modelName(spec) {
  return typeof spec?.model === 'string' ? spec.model :
      spec?.model?.layers                ? 'network of ' + plural(spec.model.layers.length, 'layer') :
                                           'no model';
}

export function dataName(spec) {
  const d = spec?.data || {};
  return d.path ? d.path : d.format || 'no data';
}

export function remaining(job) {
  const f = job.progress?.fraction;
  const rate = job.metrics?.samples_per_second;
  const p = job.progress || {};
  if (job.state !== 'running' || !(f > 0) || f >= 1) {
    return NaN;
  }
  if (rate > 0 && p.samples > 0) { /* by the present speed */
    return p.samples * (1 / f - 1) / rate;
  }
  return job.started ? (Date.now() - new Date(job.started).getTime()) / 1000 * (1 / f - 1) : NaN;
}

export function make(ui) {
  const {data} = ui;
  const title = h('h1');
  let state = pill(data.job.state);
  const virtual = h('span', {class: 'tag', text: 'virtual cluster', hidden: true});
  const facts = h('p', {class: 'facts'});
  const actions = h('div', {class: 'actions', id: 'job-actions'});
  const question = h('div', {class: 'ask-place', role: 'alert'});
  const left = h('span');
  const right = h('span', {class: 'right'});
  const bar = h('i');
  const progress =
      h('div', {
        class: 'progress',
        role: 'progressbar',
        'aria-label': 'progress of the job',
        'aria-valuemin': 0,
        'aria-valuemax': 100
      },
        bar);
  const node =
      h('div', {class: 'job-head'}, h('p', {class: 'crumbs'}, h('a', {href: '#/', text: 'Jobs'}), ' /'),
        h('div', {class: 'head'}, h('div', {class: 'title'}, title, state, virtual), actions), facts, question,
        h('div', {class: 'progress-line'}, left, right), progress);
  let shownActions = '';
  let busy = false;

  async function act(what, button) {
    if (busy) {
      return;
    }
    busy = true;
    button.disabled = true;
    fill(question);
    try {
      if (what === 'delete') {
        await remove(path(data.id));
        location.hash = '#/';
      } else {
        await post(path(data.id, what));
      }
    } catch (e) {
      fill(
          question,
          h('p', {class: 'notice', data: {tone: 'bad'}}, icon('cross', 12),
            h('span', {text: e.message + (e.hint ? '; ' + e.hint : '')})));
    }
    busy = false;
    button.disabled = false;
  }

  function ask(text, yes, what, opener) {
    const confirm = h(
        'button',
        {type: 'button', class: 'btn danger', text: yes, id: 'confirm-' + what, on: {click: () => act(what, confirm)}});
    const back = () => {
      fill(question);
      opener.focus();
    };
    fill(
        question,
        h('div', {class: 'ask', on: {keydown: (e) => e.key === 'Escape' && back()}}, h('span', {text}),
          h('span', {class: 'actions'}, confirm,
            h('button', {type: 'button', class: 'btn', text: 'Keep it', on: {click: back}}))));
    confirm.focus();
  }

  function drawActions(job) {
    const wanted = job.state + '|' + job.name;
    if (shownActions === wanted) {
      return;
    }
    shownActions = wanted;
    const button = (text, id, fn, cls = '') => {
      const b = h('button', {type: 'button', class: 'btn ' + cls, text, id, on: {click: () => fn(b)}});
      return b;
    };
    const list = [];
    if (job.state === 'running') {
      list.push(button('Pause', 'pause', (b) => act('pause', b)));
    }
    if (job.state === 'paused') {
      list.push(button('Resume', 'resume', (b) => act('resume', b), 'primary'));
    }
    if (!ended(job.state) && job.state !== 'cancelling') {
      list.push(button(
          'Cancel', 'cancel',
          (b) =>
              ask(active(job.state) ?
                      'Cancel “' + job.name + '”? Training stops on all its nodes; what was recorded stays.' :
                      'Cancel “' + job.name + '”? It leaves the queue.',
                  'Cancel job', 'cancel', b)));
    }
    list.push(
        h('a', {class: 'btn', href: '#/new?from=' + data.id, text: 'Clone'}),
        h('a', {class: 'btn', href: '#/compare?runs=' + data.id, text: 'Compare'}));
    if (ended(job.state)) {
      list.push(button(
          'Delete', 'delete',
          (b) =>
              ask('Delete “' + job.name + '” with its history, logs and artifacts? This cannot be taken back.',
                  'Delete job', 'delete', b)));
    }
    fill(actions, list);
    fill(question);
  }

  return {
    node,
    update() {
      const job = data.job;
      say(title, job.name);
      state = setPill(state, job.state);
      virtual.hidden = !job.spec?.cluster;
      progress.classList.toggle('bad', job.state === 'failed');
      drawActions(job);
      const spec = job.spec || {};
      const most = 1 + (spec.max_restarts ?? 0);
      const factKey = [job.attempt, (job.workers || []).length, job.created].join('|');
      if (facts.dataset.key !== factKey) {
        facts.dataset.key = factKey;
        fill(
            facts, h('span', {text: modelName(spec) + ' on ' + dataName(spec)}),
            h('span', null, h('b', {text: spec.strategy?.type || 'sync'}),
              ', ' + (spec.batching?.policy || 'dynamic') + ' minibatch, B = ' + whole(spec.batching?.global_batch)),
            h('span', {text: plural((job.workers || []).length || spec.workers || 1, 'node')}),
            job.attempt > 1 && h('span', {text: 'attempt ' + job.attempt + ' of ' + most}),
            h('span', {text: 'submitted ' + when(job.created)}), h('span', {class: 'mono quiet', text: job.id}));
      }
      const p = job.progress || {};
      const epochs = p.epochs || spec.epochs || 0;
      const at = Math.min(epochs, Math.floor(p.epoch || 0) + (ended(job.state) ? 0 : 1));
      const running = p.step > 0;
      fill(
          left, h('b', {
            text: job.state === 'succeeded' ? 'All ' + plural(epochs, 'epoch') :
                running ? (ended(job.state) ? 'Stopped in epoch ' + Math.min(epochs, Math.floor(p.epoch) + 1) :
                                              'Epoch ' + Math.max(1, at)) +
                    ' of ' + epochs :
                          plural(epochs, 'epoch')
          }),
          running && h('span', {text: 'step ' + whole(p.step)}), running && h('span', {text: percent(p.fraction)}));
      const rest = remaining(job);
      const ran =
          job.started ? ((job.finished ? new Date(job.finished) : new Date()) - new Date(job.started)) / 1000 : NaN;
      fill(
          right, job.started && h('span', {
                   text: (job.finished ? 'ran ' + clock(job.started) + ' to ' + clock(job.finished) + ', ' :
                                         'started ' + clock(job.started) + ', running for ') +
                       duration(ran)
                 }),
          Number.isFinite(rest) &&
              h('b', {text: 'ends about ' + clock(new Date(Date.now() + rest * 1000)) + ', in ' + duration(rest)}));
      const done = Math.round(1000 * (p.fraction || 0)) / 10;
      bar.style.width = done + '%';
      progress.setAttribute('aria-valuenow', done);
    }
  };
}
