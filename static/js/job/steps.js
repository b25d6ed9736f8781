/* The last steps: a lane per node, drawn to time, and the server's versions beneath. A chosen step gets a bracket
   around the updates that overtook it, so that staleness is counted, not explained. A row's time is the end of its
   step; inside, computing comes first, then the exchange, then the wait. */
import {get, job as path} from '../api.js';
import {linearTicks, timeTick} from '../chart/scale.js';
import {fill, h, s, say} from '../dom.js';
import {known, seconds, whole} from '../format.js';
import {active} from '../states.js';
import {median} from '../verdict.js';

import {tableButton} from './staleness.js';

const POLL_MS = 1000;
const LANE = 26;

export function make(ui) {
  const {data, key} = ui;
  let nodes = [];
  let picked = null;
  let timer = 0;
  let seen = false;
  let closed = false;
  const sub = h('span', {class: 'note', text: 'one lane per node; numbers are minibatch and computing time'});
  const table = h('div', {class: 'chart-table scroll', hidden: true});
  const stage = h('div', {
    class: 'lanes',
    tabindex: '0',
    role: 'group',
    'aria-label': 'The last steps. Left and right arrow keys choose a step.',
    on: {keydown: onKey}
  });
  const caption = h('p', {class: 'lanes-caption', 'aria-live': 'polite'});
  const empty = h('p', {class: 'quiet'});
  const node =
      h('section', {'aria-label': 'Last steps'},
        h('div', {class: 'row-title'}, h('h2', {text: 'Last steps'}), sub,
          h('span', {class: 'tools'}, tableButton(table, drawTable))),
        empty, stage, caption, table);

  const watcher = new IntersectionObserver((entries) => {
    seen = entries.some((e) => e.isIntersecting);
    if (seen) {
      read();
    }
  });
  watcher.observe(node);
  const resize = new ResizeObserver(() => draw());
  resize.observe(stage);

  async function read() {
    clearTimeout(timer);
    if (closed) {
      return;
    }
    if (seen && !document.hidden && !picked) { /* what is being read does not move */
      try {
        const answer = await get(path(data.id, 'steps'), {last: 60});
        if (!picked) {
          nodes = (answer.nodes || []).filter((n) => n.rows && n.rows.length);
          draw();
        }
      } catch (e) { /* the banner says it; what is drawn stays */
      }
    }
    if (active(data.job.state) && !closed) {
      timer = setTimeout(read, POLL_MS);
    }
  }

  /* The window of time that is shown: about ten steps of the slowest node. */
  function window_() {
    const end = Math.max(...nodes.map((n) => n.rows[n.rows.length - 1].time));
    const step = Math.max(...nodes.map((n) => median(n.rows.slice(-12).map(length))).filter(known), 1e-6);
    const wide = ui.narrow ? 4 : nodes.length > 8 ? 5 : 9;
    return [end - wide * step, end];
  }

  function draw() {
    const has = nodes.length > 0;
    say(empty, has ? '' : 'The last steps are drawn here as soon as some have ended.');
    stage.hidden = !has;
    const W = stage.clientWidth;
    if (!has || W < 100) {
      return;
    }
    const gutter = ui.narrow ? 84 : 92;
    const [a, b] = window_();
    const width = W - gutter;
    const x = (t) => gutter + width * (t - a) / (b - a);
    const order = data.nodes().map((name) => nodes.find((n) => n.node === name)).filter(Boolean);
    const lane = order.length > 8 ? 16 : LANE;
    const server = data.job.servers?.length > 0 && data.job.spec?.strategy?.type !== 'sync';
    const height = order.length * (lane + 4) + (server ? 24 : 4) + 20;
    const svg = s('svg', {
      width: W,
      height,
      viewBox: '0 0 ' + W + ' ' + height,
      class: 'lanes-svg',
      role: 'img',
      'aria-label': 'steps of the last ' + seconds(b - a)
    });
    svg.append(s(
        'defs', null,
        s('pattern', {id: 'hatch', width: 4, height: 4, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)'},
          s('rect', {width: 4, height: 4, class: 'hatch-ground'}),
          s('rect', {width: 2, height: 4, class: 'hatch-line'}))));
    const labels = order.map(
        (n, i) =>
            h('span', {class: 'lane-name', style: {top: i * (lane + 4) + (lane - 20) / 2 + 'px'}}, key.label(n.node)));
    order.forEach((n, i) => drawLane(svg, n, i * (lane + 4), lane, x, gutter, W));
    const y = order.length * (lane + 4);
    if (server) {
      labels.push(h('span', {class: 'lane-name quiet', text: 'server', style: {top: y + 'px'}}));
      drawServer(svg, order, y + 10, x, a, b);
    }
    for (const t of linearTicks(a - b, 0, ui.narrow ? 3 : 6)) {
      svg.append(
          s('text', {
            x: Math.min(W - 2, x(b + t)),
            y: height - 4,
            class: 'lane-tick',
            'text-anchor': t === 0     ? 'end' :
                x(b + t) < gutter + 30 ? 'start' :
                                         'middle'
          },
            t === 0 ? 'now' : '−' + timeTick(-t, b - a)));
    }
    if (picked) {
      drawBracket(svg, order, lane, y, x, server);
    }
    fill(stage, svg, labels);
    say(sub,
        seconds(b - a) + ', one lane per node; ' +
            (picked ? 'held while a step is chosen, Esc goes on' : 'numbers are minibatch and computing time'));
    drawCaption();
    if (!table.hidden) {
      drawTable();
    }
  }

  function drawLane(svg, n, y, lane, x, gutter, W) {
    svg.append(s('rect', {x: gutter, y, width: W - gutter, height: lane, class: 'lane-ground'}));
    const dim = ui.chosen && ui.chosen !== n.node;
    let before = -Infinity; /* what overlaps the step before was done while that was still on its way */
    for (const row of n.rows) {
      const from = row.time - length(row);
      const cuts = [from, from + row.compute_seconds, from + row.compute_seconds + row.exchange_seconds, row.time]
                       .map((t) => Math.max(t, before))
                       .map((t) => Math.max(gutter, x(t)));
      before = row.time;
      if (cuts[3] <= gutter + 0.5) {
        continue;
      }
      const group = s('g', {class: 'step' + (dim ? ' dim' : ''), on: {click: () => pick(n, row)}});
      ['compute', 'exchange', 'wait'].forEach((name, k) => {
        const wide = cuts[k + 1] - cuts[k];
        if (wide > 0.1) {
          group.append(s('rect', {
            x: cuts[k].toFixed(1),
            y,
            width: Math.max(
                           k ? 1 : 0.5,
                           wide - (k === 2 || k === 0 && row.exchange_seconds + row.wait_seconds === 0 ? 1 : 0))
                       .toFixed(1),
            height: lane,
            class: 'lane-' + name,
            fill: name === 'exchange' ? 'url(#hatch)' : undefined
          }));
        }
      });
      group.append(s('line', {x1: cuts[3], x2: cuts[3], y1: y, y2: y + lane, class: 'lane-edge'}));
      const room = cuts[1] - cuts[0];
      const mid = y + lane / 2 + 4;
      if (room > 34) {
        group.append(s('text', {x: cuts[0] + 5, y: mid, class: 'lane-batch'}, String(row.batch)));
      }
      const took = seconds(row.compute_seconds);
      if (room > 44 + 7.5 * took.length) {
        group.append(s('text', {x: cuts[1] - 5, y: mid, class: 'lane-took', 'text-anchor': 'end'}, took));
      }
      svg.append(group);
    }
  }

  function drawServer(svg, order, y, x, a, b) {
    for (const n of order) {
      for (const row of n.rows) {
        if (row.time >= a && row.time <= b) {
          const mark = key.mark(n.node, 9);
          mark.setAttribute('x', x(row.time) - 4.5);
          mark.setAttribute('y', y - 4.5);
          mark.setAttribute('width', 9);
          mark.setAttribute('height', 9);
          svg.append(mark);
        }
      }
    }
  }

  function drawBracket(svg, order, lane, y, x, server) {
    const i = order.findIndex((n) => n.node === picked.node);
    const row = i >= 0 && order[i].rows.find((r) => r.step === picked.step && r.local_step === picked.local);
    if (!row) {
      return;
    }
    const x0 = x(row.time - length(row));
    const x1 = x(row.time);
    svg.append(s('rect', {x: x0, y: i * (lane + 4) - 1, width: Math.max(2, x1 - x0), height: lane + 2, class: 'pick'}));
    if (server) {
      svg.append(s('path', {
        d: 'M' + x0 + ' ' + (i * (lane + 4) + lane + 1) + 'V' + (y + 20) + 'H' + x1 + 'V' + (i * (lane + 4) + lane + 1),
        class: 'pick'
      }));
    }
  }

  function drawCaption() {
    const n = picked && nodes.find((m) => m.node === picked.node);
    const row = n && n.rows.find((r) => r.step === picked.step && r.local_step === picked.local);
    if (!row) {
      say(caption, nodes.length ? 'Choose a step to see what overtook it.' : '');
      return;
    }
    const server = data.job.servers?.length > 0 && data.job.spec?.strategy?.type !== 'sync';
    say(caption,
        server ? 'Step ' + whole(row.step) + ' of ' + picked.node + ': computed on version ' +
                whole(row.step - 1 - row.staleness) + ', applied after ' +
                (row.staleness === 1 ? '1 other' : whole(row.staleness) + ' others') + ': staleness ' + row.staleness +
                '.' :
                 'Step ' + whole(row.step) + ' of ' + picked.node + ': ' + row.batch + ' samples, ' +
                seconds(row.compute_seconds) + ' computing, ' + seconds(row.exchange_seconds) + ' exchange, ' +
                seconds(row.wait_seconds) + ' waiting.');
  }

  function pick(n, row) {
    picked = picked && picked.node === n.node && picked.step === row.step ?
        null :
        {node: n.node, step: row.step, local: row.local_step};
    draw();
  }

  function onKey(e) {
    const all = nodes.flatMap((n) => n.rows.map((row) => ({n, row}))).sort((p, q) => p.row.time - q.row.time);
    if (!all.length || !['ArrowLeft', 'ArrowRight', 'Escape', 't', 'T'].includes(e.key)) {
      return;
    }
    e.preventDefault();
    if (e.key === 'Escape') {
      picked = null;
    } else if (e.key === 't' || e.key === 'T') {
      node.querySelector('.tool').click();
    } else {
      const at = picked ? all.findIndex((p) => p.n.node === picked.node && p.row.step === picked.step) : all.length;
      const to = all[Math.max(0, Math.min(all.length - 1, at + (e.key === 'ArrowLeft' ? -1 : 1)))];
      picked = {node: to.n.node, step: to.row.step, local: to.row.local_step};
    }
    draw();
  }

  function drawTable() {
    const rows =
        nodes.flatMap((n) => n.rows.map((row) => [row.time, n.node, row])).sort((p, q) => q[0] - p[0]).slice(0, 60);
    fill(
        table,
        h('table', {class: 'dense'}, h('caption', {class: 'sr', text: 'The last steps, newest first'}),
          h('thead', null,
            h('tr', null, h('th', {scope: 'col', text: 'Node'}),
              ['Step', 'Minibatch', 'Loss', 'Compute', 'Exchange', 'Wait', 'Staleness'].map(
                  (t) => h('th', {class: 'num', scope: 'col', text: t})))),
          h('tbody', null, rows.map(([, name, r]) => h('tr', null, h('td', null, key.label(name)), [
                                      whole(r.step), String(r.batch), known(r.loss) ? r.loss.toFixed(3) : 'none',
                                      seconds(r.compute_seconds), seconds(r.exchange_seconds), seconds(r.wait_seconds),
                                      String(r.staleness)
                                    ].map((t) => h('td', {class: 'num', text: t})))))));
  }

  return {
    node,
    update(what) {
      if (what.has('job') || what.has('all')) {
        read();
      }
    },
    close() {
      closed = true;
      clearTimeout(timer);
      watcher.disconnect();
      resize.disconnect();
    }
  };
}

function length(row) {
  return row.compute_seconds + row.exchange_seconds + row.wait_seconds;
}
