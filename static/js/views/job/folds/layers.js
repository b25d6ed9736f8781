/* How long the model's tensors and their gradients are over time (layermap.js). Read when it is
   opened, and again while the job runs. */
import {fill, h, say} from '../../../elements/dom.js';
import {nothingYet} from '../../../elements/states.js';
import {scroller, Segment, table, tableButton, Toggle} from '../../../elements/widgets.js';
import {get, job as path} from '../../../service/api.js';
import {plural, three, tick, whole} from '../../../text/format.js';

import {Fold} from './fold.js';
import {LayerMap} from './layermap.js';
import {hidesSmall, normPlaces, normRange, normRows} from './normrows.js';

/** @typedef {import('../view.js').JobView} JobView */
/** @typedef {import('./normrows.js').Measure} Measure */

const POINTS = 240;

/** @type {{[measure: string]: string}} */
const MEANS = {
  weights: 'L2 norm of each tensor',
  gradients: 'L2 norm of the gradient of one worker’s minibatch, before the exchange',
  ratio: 'the gradient’s norm by the weight’s'
};

/** @type {[Measure, string][]} */
const MEASURES = [['weights', 'Weights'], ['gradients', 'Gradients'], ['ratio', 'Ratio']];

/** @param {(number | null)[]} values */
function extremes(values) {
  const finite = values.flatMap((v) => (v === null ? [] : [v]));
  return [Math.min(...finite), Math.max(...finite)].map((v) => three(Number.isFinite(v) ? v : NaN));
}

export class Layers {
  /** @param {JobView} view */
  constructor(view) {
    this.view = view;
    this.fold = new Fold('layers', 'Layers', () => this.read());
    say(this.fold.note, 'norms of weights and gradients over time');
    /** @type {Api.Norms | null} */
    this.norms = null;
    this.reading = false;
    /** @type {Measure} */
    this.measure = 'weights';
    this.all = false;
    this.onTheme = () => requestAnimationFrame(() => this.draw());
    window.addEventListener('evenstep-theme', this.onTheme);
    this.map = new LayerMap(view);
    const measure = new Segment('Norms', MEASURES, this.measure, (value) => {
      this.measure = value;
      this.draw();
    });
    this.biases = new Toggle('Biases too', false, (on) => {
      this.all = on;
      this.draw();
    });
    this.table = scroller('Norms of the layers, table', null, 'chart-table');
    this.table.hidden = true;
    this.says = h('p', {class: 'quiet'});
    const tools = h('span', {class: 'right'}, this.biases.node,
        tableButton(this.table, () => this.drawTable()));
    this.tools = h('div', {class: 'controls tight'}, measure.node, tools);
    fill(this.fold.body, this.tools, this.says, this.map.node, this.table);
    this.showMap(false);
  }

  /** @param {boolean} on */
  showMap(on) {
    this.tools.hidden = this.map.node.hidden = !on;
  }

  async read() {
    if (this.reading) {
      return;
    }
    this.reading = true;
    try {
      this.norms = await get(path(this.view.data.id, 'norms'), {points: POINTS});
      this.draw();
    } catch (e) {
      say(this.says, /** @type {Error} */ (e).message);
    } finally {
      this.reading = false;
    }
  }

  /* Samples of an epoch, as far as the run tells. */
  epochSamples() {
    const {samples, epoch} = this.view.data.job.progress || {};
    return samples && epoch ? samples / epoch : 1;
  }

  draw() {
    const {norms, view} = this;
    if (!norms || !this.fold.open) {
      return;
    }
    const rows = normRows(norms, this.measure, this.all);
    const range = normRange(rows);
    this.showMap(range !== null);
    this.biases.node.hidden = !hidesSmall(norms);
    if (range === null) {
      say(this.says, nothingYet(view.data.job) || 'No norms were measured in this run.');
      return;
    }
    const left = norms.left_out ? '; ' + plural(norms.left_out, 'tensor') + ' left out' : '';
    say(this.says, MEANS[this.measure] + ', at ' + plural(norms.total_points, 'step') + left + '.');
    this.map.draw(rows, normPlaces(norms, view.group.axis, this.epochSamples()), range);
    if (!this.table.hidden) {
      this.drawTable();
    }
  }

  drawTable() {
    const {norms} = this;
    if (!norms) {
      return;
    }
    const rows = normRows(norms, this.measure, true).map(({name, elements, values}) => {
      const last = values[values.length - 1];
      const cells =
          [whole(elements), last === null ? 'NaN or infinite' : three(last), ...extremes(values)];
      return h('tr', null, h('th', {scope: 'row', text: name}),
          cells.map((text) => h('td', {class: 'num', text})));
    });
    const at = norms.x.length ? ' at step ' + tick(norms.x[norms.x.length - 1]) : '';
    const heads = ['Elements', 'Last', 'Least', 'Greatest'];
    fill(this.table,
        table('Norms of each tensor' + at,
            ['Tensor', ...heads.map((text) => /** @type {[string, string]} */ ([text, 'num']))],
            h('tbody', null, rows), 'dense'));
  }

  /** @param {Set<string>} what */
  update(what) {
    if (!this.fold.open) {
      return;
    }
    if (what.has('series') || (what.has('all') && !this.norms)) {
      this.read();
    } else if (what.has('zoom') || what.has('all')) {
      this.draw();
    }
  }

  point() {
    if (this.fold.open && this.norms) {
      this.map.point();
    }
  }

  close() {
    window.removeEventListener('evenstep-theme', this.onTheme);
  }
}
