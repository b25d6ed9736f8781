/* Step time by minibatch for the nodes of one job: a point for each measured bucket, the fitted line a + k·b, and the
   horizontal line of one step, whose crossings are the minibatches. Where a node was only seen at one size its line
   goes through the origin and that point, and is drawn dashed. */
import {get, job as path} from '../api.js';
import {linearTicks, spread} from '../chart/scale.js';
import {fitLine} from '../chart/smooth.js';
import {fill, h, keyed, s, say} from '../dom.js';
import {known, seconds, three} from '../format.js';
import {shape} from '../icons.js';
import {NodeKey} from '../nodekey.js';

const [W, H, LEFT, RIGHT, TOP, BOTTOM] = [800, 330, 64, 110, 12, 40];

function pointsOf(series, node) {
  const b = series.find((c) => c.name === 'batch' && c.node === node);
  const t = series.find((c) => c.name === 'compute_seconds' && c.node === node);
  const out = [];
  for (let i = Math.min(1, (b?.x.length || 1) - 1); b && t && i < Math.min(b.x.length, t.x.length); i++) {
    if (b.min[i] === b.max[i] && t.mean[i] > 0) {
      out.push([b.mean[i], t.mean[i]]);
    }
  }
  return out;
}

export function fitOf(points, worker) {
  const sizes = points.map((p) => p[0]);
  if (points.length > 4 && Math.max(...sizes) > 1.2 * Math.min(...sizes)) {
    const {a, k} = fitLine(sizes, points.map((p) => p[1]));
    if (k > 0) {
      const off = points.map(([b, t]) => Math.abs(t - a - k * b) / t).sort((p, q) => p - q);
      return {a, k, error: off[off.length >> 1], guessed: false};
    }
  }
  const k = worker.batch > 0 ? worker.compute_seconds / worker.batch : NaN;
  return {a: 0, k, error: NaN, guessed: true};
}

export function fitFigure() {
  const sub = h('span', {class: 'note'});
  const stage = h('div', {class: 'fit-stage'});
  const tbody = h('tbody');
  const text = h('p', {class: 'sub'});
  const node =
      h('section', {class: 'row', hidden: true, 'aria-label': 'Step time by minibatch'},
        h('div', null, h('div', {class: 'row-title'}, h('h2', {text: 'Step time by minibatch'}), sub), stage),
        h('div', {class: 'rail-side'}, h('h3', {class: 'rail-head', text: 'Fitted lines'}),
          h('table', {class: 'dense'}, h('caption', {class: 'sr', text: 'Fitted lines'}),
            h('thead', null,
              h('tr', null, h('th', {scope: 'col', text: 'Node'}),
                ['a, ms', 'k, ms', 'Fit', 'b'].map((t) => h('th', {class: 'num', scope: 'col', text: t})))),
            tbody),
          text));

  function draw(job, series) {
    const workers = (job.workers || []).filter((w) => w.batch > 0 && w.compute_seconds > 0);
    node.hidden = workers.length === 0;
    if (!workers.length) {
      return;
    }
    const key = new NodeKey(job.workers.map((w) => w.node));
    const lines = workers.map((w) => {
      const points = pointsOf(series, w.node);
      return {w, points, ...fitOf(points, w)};
    });
    const B = job.spec.batching.global_batch;
    const equal = B / workers.length;
    const line = Math.max(...workers.map((w) => w.compute_seconds));
    const xMax = Math.max(equal, ...workers.map((w) => w.batch)) * 1.2;
    const yMax =
        Math.max(line * 1.25, Math.min(line * 3, ...[Math.max(...lines.map((l) => l.a + l.k * equal))])) * 1.05;
    const x = (v) => LEFT + (W - LEFT - RIGHT) * v / xMax;
    const y = (v) => H - BOTTOM - (H - TOP - BOTTOM) * v / yMax;
    const svg = s('svg', {
      viewBox: '0 0 ' + W + ' ' + H,
      class: 'fit',
      role: 'img',
      'aria-label': 'computing time of a step by minibatch, for each node'
    });
    for (const v of linearTicks(0, yMax, 5)) {
      svg.append(
          s('line', {x1: LEFT, x2: W - RIGHT, y1: y(v), y2: y(v), class: 'fit-grid'}),
          s('text', {x: LEFT - 8, y: y(v) + 4, 'text-anchor': 'end', class: 'lane-tick'}, seconds(v)));
    }
    for (const v of linearTicks(0, xMax, 8)) {
      svg.append(s('text', {x: x(v), y: H - BOTTOM + 16, 'text-anchor': 'middle', class: 'lane-tick'}, String(v)));
    }
    svg.append(
        s('text', {x: (LEFT + W - RIGHT) / 2, y: H - 6, 'text-anchor': 'middle', class: 'lane-tick'},
          'minibatch b, samples'));
    svg.append(
        s('line', {x1: x(equal), x2: x(equal), y1: TOP, y2: H - BOTTOM, class: 'fit-equal'}),
        s('text', {x: x(equal) + 5, y: H - BOTTOM - 6, class: 'lane-tick'}, 'equal split ' + Math.round(equal)));
    const ends = [];
    for (const l of lines) {
      const end = Math.min(xMax, (yMax - l.a) / l.k);
      const path_ = s('line', {
        x1: x(0),
        y1: y(Math.max(0, l.a)),
        x2: x(end),
        y2: y(l.a + l.k * end),
        class: 'fit-line' + (l.guessed ? ' guessed' : '')
      });
      path_.style.color = key.colour(l.w.node);
      svg.append(path_);
      const step = Math.max(1, Math.floor(l.points.length / 60));
      for (let i = 0; i < l.points.length; i += step) {
        put(svg, key, l.w.node, x(l.points[i][0]), y(l.points[i][1]), 6, true);
      }
      ends.push({node: l.w.node, x: x(end), y: y(l.a + l.k * end)});
    }
    svg.append(s('line', {x1: LEFT, x2: W - RIGHT, y1: y(line), y2: y(line), class: 'fit-step'}));
    lines.forEach((l) => put(svg, key, l.w.node, x(l.w.batch), y(l.a + l.k * l.w.batch), 12, false));
    const at = spread([...ends.map((e) => e.y), y(line)], 15, TOP + 6, H - BOTTOM);
    ends.forEach((e, i) => {
      put(svg, key, e.node, Math.min(e.x, W - RIGHT) + 12, at[i], 9, false);
      svg.append(s('text', {x: Math.min(e.x, W - RIGHT) + 21, y: at[i] + 4, class: 'fit-name'}, e.node));
    });
    svg.append(s('text', {x: W - RIGHT + 6, y: at[at.length - 1] + 4, class: 'fit-strong'}, seconds(line)));
    fill(stage, svg);
    say(sub, 'computing only, in “' + job.name + '”: measured points and the fitted line a + k·b');
    keyed(
        tbody, lines, (l) => l.w.node,
        (l) => {
          const cells = [0, 1, 2, 3].map((i) => h('td', {class: 'num' + (i === 3 ? ' strong' : '')}));
          return {node: h('tr', null, h('td', null, key.label(l.w.node)), cells), cells};
        },
        (row, l) => [l.guessed ? 'not known' : three(l.a * 1000), three(l.k * 1000),
                     known(l.error) ? '±' + (100 * l.error).toFixed(1) + '\u202f%' : '', String(l.w.batch)]
                        .forEach((t, i) => say(row.cells[i], t)));
    say(text,
        'The thick line is one step. Where it crosses a node’s line is the minibatch that lets the node finish with the others; the sizes sum to ' +
            B + '.' + (lines.some((l) => l.guessed) ? ' Dashed: seen at one minibatch only, so far.' : ''));
  }

  return {
    node,
    async read(job) {
      if (!job) {
        node.hidden = true;
        return;
      }
      const {series} = await get(path(job.id, 'series'), {names: 'batch,compute_seconds', x: 'step', points: 200});
      draw(job, series);
    }
  };
}

function put(svg, key, name, x, y, size, faint) {
  const mark = shape(key.shapeName(name), size);
  mark.style.color = key.colour(name);
  mark.setAttribute('x', x - size / 2);
  mark.setAttribute('y', y - size / 2);
  mark.setAttribute('class', 'shape' + (faint ? ' faint' : ' solid'));
  svg.append(mark);
}
