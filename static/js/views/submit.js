/* A new job: form and JSON side by side, always the same job. Every change is checked by the service (a dry run) after
   a moment; errors stand at the field and at the line; beneath, what would happen; the button comes last. */
import {get, job as path, post} from '../api.js';
import {fill, h, say} from '../dom.js';
import {bytes, known, plural, sentence, whole} from '../format.js';
import {icon} from '../icons.js';
import {flatten} from '../job/folds.js';
import {makeEditor} from '../submit/editor.js';
import {makeForm} from '../submit/form.js';
import {lineOf, places, print, setAt} from '../submit/json.js';
import {showPrediction} from '../submit/prediction.js';

const CHECK_MS = 300;

function firstSpec(datasets, nodes) {
  const mnist = datasets.find((d) => d.format === 'idx');
  const usable = nodes.filter((n) => n.state !== 'lost' && n.state !== 'disabled').length;
  return {
    name: 'my-job',
    model: 'lenet5',
    data: mnist ? {format: 'idx', path: mnist.path} : {format: 'glyphs', samples: 20000, test_samples: 4000},
    optimizer: {type: 'sgd', learning_rate: 0.05, momentum: 0.9},
    strategy: {type: 'sync'},
    batching: {global_batch: 256, policy: 'dynamic'},
    workers: Math.max(1, Math.min(4, usable || 1)),
    epochs: 3,
    seed: 1
  };
}

function freshKey() {
  const bytesOf = crypto.getRandomValues(new Uint8Array(16));
  return [...bytesOf].map((b) => b.toString(16).padStart(2, '0')).join('');
}

export async function show(root, route) {
  document.title = 'New job · Evenstep';
  const from = route.params.get('from');
  const [catalog, {nodes}, datasets, earlier] = await Promise.all([
    get('catalog'), get('nodes'), get('datasets').then((d) => d.datasets).catch(() => []), from ? get(path(from)) : null
  ]);
  if (!route.alive()) {
    return {};
  }
  let spec = earlier ? earlier.spec : firstSpec(datasets, nodes);
  let timer = 0;
  let aborter = null;
  let valid = false;
  let key = freshKey();

  const state = h('p', {class: 'json-state', role: 'status'});
  const faultList = h('ul', {class: 'fault-list'});
  const understood = h('div', {class: 'understood', hidden: true});
  const expect = h('div', {class: 'expect-body'});
  const expectNote = h('span', {class: 'note'});
  const submit =
      h('button', {type: 'button', class: 'btn primary', id: 'submit', text: 'Submit job', on: {click: () => send()}});
  const foot = h('span', {class: 'quiet', text: ''});
  const failed = h('div', {role: 'alert'});
  const form = makeForm(catalog, datasets, nodes, (pointer, value) => {
    spec = setAt(spec, pointer, value);
    editor.set(print(spec));
    form.show(spec);
    later();
  });
  const editor = makeEditor((text) => {
    try {
      const parsed = JSON.parse(text);
      if (parsed && typeof parsed === 'object' && !Array.isArray(parsed)) {
        spec = parsed;
        form.show(spec);
      }
    } catch (e) { /* the check says where */
    }
    later();
  });
  const copy = (text, make) => {
    const b = h('button', {
      type: 'button',
      class: 'btn small',
      text,
      on: {
        async click() {
          await navigator.clipboard?.writeText(make()).then(() => say(b, 'Copied'), () => {});
          setTimeout(() => say(b, text), 1500);
        }
      }
    });
    return b;
  };
  const file = h('input', {
    type: 'file',
    accept: '.json,application/json',
    hidden: true,
    on: {
      async change() {
        if (file.files[0]) {
          editor.set(await file.files[0].text());
          editor.area.dispatchEvent(new Event('input'));
        }
      }
    }
  });
  const save = h('button', {
    type: 'button',
    class: 'btn',
    text: 'Save as file',
    on: {
      click() {
        const url = URL.createObjectURL(new Blob([editor.text + '\n'], {type: 'application/json'}));
        const a = h('a', {href: url, download: (spec.name || 'job').replace(/[^\w.-]+/g, '-') + '.json'});
        a.click();
        setTimeout(() => URL.revokeObjectURL(url), 1000);
      }
    }
  });

  fill(
      root, h('p', {class: 'crumbs'}, h('a', {href: '#/', text: 'Jobs'}), ' /'),
      h('div', {class: 'head'},
        h('div', {class: 'title'}, h('h1', {text: earlier ? 'New job from “' + earlier.name + '”' : 'New job'})),
        h('div', {class: 'actions'},
          h('button', {type: 'button', class: 'btn', text: 'Load file', on: {click: () => file.click()}}), file)),
      h('form', {
        class: 'sheet',
        novalidate: true,
        on: {
          submit: (e) => {
            e.preventDefault();
            send();
          },
          keydown: (e) => e.key === 'Enter' && e.target.tagName === 'INPUT' && e.preventDefault()
        }
      },
        h('div', {class: 'submit-grid'}, form.node,
          h('section', {class: 'submit-json', 'aria-label': 'JSON'},
            h('div', {class: 'json-head'}, h('h2', {text: 'JSON'}),
              h('span', {class: 'quiet', text: 'the same job; edit either side'}),
              h('span', {class: 'actions'}, copy('Copy', () => editor.text), copy('Copy as curl', () => curl()))),
            editor.node, state, faultList, understood)),
        h('section', {class: 'expect', 'aria-label': 'What to expect'},
          h('div', {class: 'row-title'}, h('h2', {text: 'What to expect'}), expectNote), expect),
        h('div', {class: 'submit-foot'}, foot, h('div', {class: 'actions'}, save, submit), failed)));

  function curl() {
    return 'curl -X POST \'' + location.origin +
        '/api/v1/jobs\' -H "Authorization: Bearer $EVENSTEP_TOKEN" -H \'Content-Type: application/json\' -d \'' +
        editor.text.replace(/'/g, '\'\\\'\'') + '\'';
  }

  function later() {
    clearTimeout(timer);
    timer = setTimeout(check, CHECK_MS);
  }

  async function check() {
    aborter?.abort();
    aborter = new AbortController();
    const text = editor.text;
    try {
      const answer = await post('jobs?dryRun=true', text, {signal: aborter.signal});
      showValid(answer);
    } catch (e) {
      if (e.name !== 'AbortError' && route.alive()) {
        showErrors(e);
      }
    }
  }

  function showValid(answer) {
    valid = true;
    form.faults([]);
    editor.mark([]);
    fill(state, icon('check', 12), h('span', {text: 'valid'}));
    state.dataset.tone = 'ok';
    fill(faultList);
    submit.disabled = false;
    fill(failed);
    showUnderstood(answer);
    showPlan(answer);
  }

  function showErrors(e) {
    const errors = e.errors || [];
    const one = errors.length ? errors : [{pointer: '', message: e.message + (e.hint ? '; ' + e.hint : '')}];
    const homeless = form.faults(errors);
    const found = places(editor.text);
    const at = /line (\d+)/.exec(e.message);
    editor.mark(errors.length ? errors.map((x) => lineOf(found, x.pointer)) : at ? [Number(at[1]) - 1] : []);
    const refused = e.status === 400 || e.status === 422;
    fill(
        state, icon('cross', 12),
        h('span', {text: refused ? plural(one.length, 'error') : 'not checked: ' + e.message}));
    state.dataset.tone = 'bad';
    fill(
        faultList,
        (homeless.length || !errors.length ? [...(errors.length ? homeless : one)] : [])
            .concat(errors.filter((x) => !homeless.includes(x)))
            .map(
                (x) =>
                    h('li', null, x.pointer && h('button', {
                                    type: 'button',
                                    class: 'plain',
                                    text: x.pointer,
                                    on: {click: () => editor.select(lineOf(found, x.pointer))}
                                  }),
                      x.pointer ? ' ' : null, sentence(x.message))));
    submit.disabled = !refused ? false : true;
    if (valid) {
      say(expectNote, 'of the last valid version');
    }
  }

  function showUnderstood(answer) {
    const given = new Set(flatten(JSON.parse(editor.text)).map(([k]) => k));
    const rest = flatten(answer.spec || {}).filter(([k]) => !given.has(k));
    understood.hidden = rest.length === 0;
    fill(
        understood,
        h('div', {class: 'row-title'}, h('h2', {text: 'As understood'}),
          h('span', {class: 'note', text: plural(given.size, 'setting') + ' given, ' + rest.length + ' by default'})),
        h('dl', null, rest.map(([k, v]) => h('div', null, h('dt', {class: 'mono', text: k}), h('dd', {text: v})))));
  }

  function showPlan(answer) {
    say(expectNote, answer.starts && answer.starts !== 'now' ? answer.starts : 'starts as soon as it is submitted');
    const plan = answer.nodes || [];
    const samples = answer.samples || (spec.data?.format === 'glyphs' ? spec.data.samples || 60000 : NaN);
    const perEpoch = known(samples) ? Math.ceil(samples / (answer.spec?.batching?.global_batch || 1)) : NaN;
    fill(
        expect,
        (answer.warnings ||
         []).map((w) => h('p', {class: 'notice', data: {tone: 'warn'}}, icon('warn'), h('span', {text: sentence(w)}))),
        plan.length > 0 &&
            h('div', {class: 'scroll'},
              h('table', null, h('caption', {class: 'sr', text: 'Where it would run'}),
                h('thead', null,
                  h('tr', null, h('th', {class: 'num', scope: 'col', text: 'Rank'}),
                    ['Node', 'Device'].map((t) => h('th', {scope: 'col', text: t})),
                    ['First minibatch', 'Memory needed'].map((t) => h('th', {class: 'num', scope: 'col', text: t})))),
                h('tbody', null,
                  plan.map(
                      (n) =>
                          h('tr', null, h('td', {class: 'num', text: String(n.rank)}),
                            h('td', {class: 'strong', text: n.node}), h('td', {class: 'quiet', text: n.device}),
                            h('td', {class: 'num', text: known(n.batch) ? String(n.batch) : 'none'}), h('td', {
                              class: 'num',
                              text: known(n.memory_bytes) ? 'about ' + bytes(n.memory_bytes) : 'not known'
                            })))))),
        showPrediction(answer.prediction));
    say(foot,
        [
          known(answer.parameters) && whole(answer.parameters) + ' parameters',
          known(samples) && whole(samples) + ' training samples',
          known(perEpoch) &&
              'about ' + plural(perEpoch, 'step') + ' of ' + whole(answer.spec?.batching?.global_batch) +
                  ' samples in an epoch'
        ].filter(Boolean)
                .join(', ') +
            '.');
  }

  async function send() {
    submit.disabled = true;
    clearTimeout(timer);
    aborter?.abort();
    fill(failed);
    try {
      const made = await post('jobs', editor.text, {headers: {'Idempotency-Key': key}});
      location.hash = '#/jobs/' + made.id;
    } catch (e) {
      key = freshKey();
      submit.disabled = false;
      showErrors(e);
      fill(
          failed,
          h('p', {class: 'notice', data: {tone: 'bad'}}, icon('cross', 12),
            h('span', {text: 'Not submitted: ' + e.message})));
      root.querySelector('.field.bad input, .field.bad select')?.focus();
    }
  }

  editor.set(print(spec));
  form.show(spec);
  check();
  return {
    close() {
      clearTimeout(timer);
      aborter?.abort();
    }
  };
}
