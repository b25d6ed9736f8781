/* The drawer at the foot of the page: counts of errors and warnings and the last line; open: the log of a rank. Lines
 * are text, whatever they hold. */
import {getText, job as path} from '../api.js';
import {fill, h, keyed, say} from '../dom.js';
import {plural} from '../format.js';
import {icon} from '../icons.js';
import {active} from '../states.js';

const TAIL = 400;

function levelOf(line) {
  const found = /(?:^|\s)level=(\w+)/.exec(line);
  return found ? found[1] : '';
}

function timeOf(line) {
  const found = /(?:^|\s)ts=(\S+)/.exec(line);
  return found ? found[1] : '';
}

/* ts=… level=info mod=worker rank=2 msg="ready" → 15:16:04 info worker: ready */
export function pretty(line) {
  const ts = timeOf(line);
  const msg = /(?:^|\s)msg=(?:"((?:[^"\\]|\\.)*)"|(\S+))/.exec(line);
  if (!ts || !msg) {
    return line;
  }
  const t = new Date(ts);
  const clock = Number.isNaN(t.getTime()) ? ts : t.toTimeString().slice(0, 8);
  const mod = /(?:^|\s)mod=(\S+)/.exec(line);
  const rest = line.replace(/(?:^|\s)(ts|level|mod|msg|job)=(?:"(?:[^"\\]|\\.)*"|\S+)/g, '').trim();
  return clock + ' ' + levelOf(line) + ' ' + (mod ? mod[1] + ': ' : '') + (msg[1] ?? msg[2]) +
      (rest ? '  ' + rest : '');
}

export function make(ui) {
  const {data} = ui;
  const texts = new Map();
  let open = false;
  let rank = 'all';
  let timer = 0;
  let closed = false;
  const errors = h('span', {class: 'pill'});
  const warnings = h('span', {class: 'pill'});
  const ranks = h('span', {class: 'quiet'});
  const last = h('span', {class: 'mono last-line'});
  const chevron = h('span', {class: 'chevron'}, icon('up', 12));
  const bar =
      h('button', {
        type: 'button',
        class: 'drawer-bar',
        'aria-expanded': 'false',
        'aria-controls': 'log-body',
        id: 'logs',
        on: {click: () => flip()}
      },
        chevron, h('b', {text: 'Logs'}), ranks, errors, warnings, last);
  const tabs = h('div', {class: 'seg', role: 'group', 'aria-label': 'Rank'});
  const pre = h('div', {class: 'log-lines mono', tabindex: '0', role: 'log', 'aria-label': 'Log lines'});
  const body =
      h('div', {class: 'drawer-body', id: 'log-body', hidden: true}, h('div', {class: 'drawer-tools'}, tabs), pre);
  const node = h('aside', {class: 'drawer', 'aria-label': 'Logs'}, bar, body);

  function flip() {
    open = !open;
    body.hidden = !open;
    bar.setAttribute('aria-expanded', String(open));
    node.classList.toggle('open', open);
    document.body.classList.toggle('logs-open', open);
    if (open) {
      drawTabs();
      read();
    }
  }

  function ids() {
    const job = data.job;
    return ['launcher', ...[...(job.workers || []), ...(job.servers || [])].map((w) => w.rank)];
  }

  async function read() {
    clearTimeout(timer);
    await Promise.all(ids().map(async (id) => {
      try {
        texts.set(id, await getText(path(data.id, 'logs'), id === 'launcher' ? {tail: TAIL} : {rank: id, tail: TAIL}));
      } catch (e) {
        texts.set(id, '');
      }
    }));
    if (!closed) {
      draw();
      if (active(data.job.state)) {
        timer = setTimeout(read, open ? 2000 : 8000);
      }
    }
  }

  function lines() {
    const out = [];
    for (const [id, text] of texts) {
      if (rank === 'all' || String(rank) === String(id)) {
        for (const line of text.split('\n')) {
          if (line) {
            out.push({id, line, at: timeOf(line), level: levelOf(line)});
          }
        }
      }
    }
    return rank === 'all' ?
        out.map((l, i) => [l, i])
            .sort((a, b) => (a[0].at && b[0].at && a[0].at !== b[0].at ? (a[0].at < b[0].at ? -1 : 1) : a[1] - b[1]))
            .map(([l]) => l) :
        out;
  }

  function draw() {
    const keep = rank;
    rank = 'all';
    const all = lines();
    rank = keep;
    const count = (level) => all.filter((l) => l.level === level).length;
    const [bad, warn] = [count('error'), count('warn')];
    const set = (el, n, word, tone, name) => {
      const text = plural(n, word);
      if (el.textContent !== text) {
        el.dataset.tone = n ? tone : '';
        fill(el, icon(n ? name : 'check', 12), text);
      }
    };
    set(errors, bad, 'error', 'bad', 'cross');
    set(warnings, warn, 'warning', 'warn', 'warn');
    say(ranks, plural(Math.max(0, ids().length - 1), 'rank'));
    say(last, all.length ? pretty(all[all.length - 1].line) : 'no line yet');
    if (!open) {
      return;
    }
    const shown = lines().slice(-TAIL);
    const atEnd = pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 30;
    keyed(
        pre, shown, (l, i) => l.id + '|' + l.line + '|' + i,
        (l) =>
            h('p', {class: 'log-' + (l.level || 'plain')},
              h('span', {class: 'log-rank', text: l.id === 'launcher' ? 'launcher' : 'rank ' + l.id}), pretty(l.line)));
    if (!shown.length) {
      fill(pre, h('p', {class: 'quiet', text: 'This rank has said nothing yet.'}));
      pre.keyedNodes = null;
    }
    if (atEnd) {
      pre.scrollTop = pre.scrollHeight;
    }
  }

  function drawTabs() {
    fill(tabs, [
      ['all', 'All'], ['launcher', 'Launcher'],
      ...[...(data.job.workers || [])].map((w) => [w.rank, w.rank + ' ' + w.node]),
      ...(data.job.servers || []).map((w) => [w.rank, w.rank + ' server'])
    ].map(([id, text]) => h('button', {
            type: 'button',
            'aria-pressed': String(String(id) === String(rank)),
            text,
            on: {
              click() {
                rank = id;
                pre.keyedNodes = null;
                fill(pre);
                drawTabs();
                draw();
              }
            }
          })));
  }

  let known = '';
  return {
    node,
    update(what) {
      const now = ids().join() + data.job.state;
      if (now !== known || what.has('job')) {
        known = now;
        if (open) {
          drawTabs();
        }
        read();
      }
    },
    close() {
      closed = true;
      clearTimeout(timer);
      document.body.classList.remove('logs-open');
    }
  };
}
