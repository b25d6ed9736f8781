/* What if? On the job's finish line a node is taken out, a copy of one is added, or the global
   batch is changed; the service's simulator tells at once what a step would take, and the bars show
   it. Beneath the node table, asked only once it is opened. */
import {fill, h, say} from '../../../elements/dom.js';
import {FinishBar, placeLine} from '../../../elements/figures.js';
import {icon} from '../../../elements/icons.js';
import {button, choose, control, scroller, table} from '../../../elements/widgets.js';
import {stepTimes} from '../../../measures/measures.js';
import {whatIf} from '../../../sentences/whatif.js';
import {get, job as jobPath, post} from '../../../service/api.js';
import {cloneWith} from '../../../spec/clone.js';
import {globalBatch} from '../../../spec/spec.js';
import {cloneChanges, nodesWith, specNow, specWith} from '../../../spec/whatif.js';
import {known, seconds, sentence, whole} from '../../../text/format.js';
import {Fold} from '../folds/fold.js';

/** @typedef {import('../view.js').JobView} JobView */
/** @typedef {import('../../../spec/whatif.js').Change} Change */
/** @typedef {{spec: Api.Spec, cluster: Api.Cluster, row: Api.StrategyPrediction}} Base */

const ASK_MS = 250;
const ROOM = 1.12; /* the scale ends so far beyond the finish line */
/** @type {[string, string][]} */
const SPEEDS = [['1', 'as fast'], ['2', 'twice as fast'], ['0.5', 'half as fast']];

/** @param {Api.DryRun} answer */
function chosenOf({prediction}) {
  return (prediction?.strategies || []).find((s) => s.chosen);
}

/** @param {Api.DryRun} answer */
const reasonOf = ({prediction}) =>
    'No prediction: ' + (prediction?.reason || 'nothing is known of these nodes') + '.';

/** @param {unknown} e */
const isAbort = (e) => /** @type {Error} */ (e).name === 'AbortError';

export class WhatIf {
  /** @param {JobView} view */
  constructor(view) {
    this.view = view;
    /** @type {Base | null} */
    this.base = null;
    /** @type {Change} */
    this.change = {without: [], added: [], batch: NaN};
    this.timer = 0;
    this.aborter = new AbortController();
    this.fold = new Fold('whatif', 'What if…', () => this.open());
    say(this.fold.note, 'a node left or joined, or the global batch were another?');
    this.chips = h('div', {class: 'chips', role: 'group', 'aria-label': 'Nodes of the what-if'});
    this.like = choose('A copy of', [], () => {});
    this.speed = choose('Its speed', SPEEDS, () => {});
    this.batch = h('input', {
      type: 'number',
      class: 'small',
      min: 1,
      'aria-label': 'Global batch of the what-if',
      on: {input: () => this.askSoon()}
    });
    this.says = h('p', {class: 'whatif-says', 'aria-live': 'polite'});
    this.body = h('tbody');
    this.line = h('b', {class: 'line-label'});
    this.clone = h('a', {class: 'btn', hidden: true, text: 'Clone so'});
    this.form = this.makeForm();
    fill(this.fold.body, this.form, this.says, this.makeTable(), this.clone);
    this.node = this.fold.node;
    this.show(false);
  }

  makeForm() {
    const add = button('Add', () => this.add(), {'aria-label': 'Add this copy'});
    return h('div', {class: 'whatif-form'}, this.chips,
        h('div', {class: 'whatif-controls'}, control('A copy of', this.like, this.speed, add),
            control('Global batch', this.batch)));
  }

  makeTable() {
    const head =
        h('th', {scope: 'col', class: 'fin-cell'}, h('span', {text: 'One step, predicted'}),
            h('div', {class: 'fin-head'}, h('span', {class: 'zero', text: '0'}), this.line));
    this.table = table('Nodes of the what-if: minibatch and time for one step',
        ['Node', ['Minibatch', 'num'], head], this.body, 'node-table whatif-table');
    return scroller('Nodes of the what-if, table', this.table, 'node-holder');
  }

  /** @param {boolean} any whether there is something to change */
  show(any) {
    this.form.hidden = !any;
    /** @type {HTMLElement} */ (this.table).hidden = !any;
  }

  /**
   * Removes bars and clone, which would not match.
   * @param {string} why there is no prediction
   */
  without(why) {
    say(this.says, why);
    /** @type {HTMLElement} */ (this.table).hidden = true;
    this.clone.hidden = true;
  }

  /* The prediction of the job as it is, whose cluster is what will be changed. */
  async open() {
    const {job} = this.view.data;
    if (this.base) {
      return;
    }
    say(this.says, 'The job as it is now is being simulated.');
    try {
      const {spec} = /** @type {Api.Job} */ (await get(jobPath(job.id)));
      const now = specNow({...job, spec});
      const answer = /** @type {Api.DryRun} */ (await post('jobs?dryRun=true', now));
      const row = chosenOf(answer);
      const cluster = answer.prediction?.cluster;
      if (!row || !cluster) {
        this.without(reasonOf(answer));
        return;
      }
      this.base = {spec: now, cluster, row};
      this.begin(cluster, row);
    } catch (e) {
      this.fail(e);
    }
  }

  /**
   * @param {Api.Cluster} cluster
   * @param {Api.StrategyPrediction} row
   */
  begin(cluster, row) {
    this.change.batch = globalBatch(this.view.data.job);
    this.batch.value = String(this.change.batch);
    fill(this.like, cluster.nodes.map((n) => h('option', {value: n.name, text: n.name})));
    this.show(true);
    this.draw(row);
  }

  /** @param {unknown} e */
  fail(e) {
    if (!isAbort(e)) {
      const {errors, message} = /** @type {import('../../../service/api.js').ApiError} */ (e);
      this.without(sentence((errors || []).map((x) => x.message).join('; ') || message));
    }
  }

  add() {
    this.change.added.push({like: this.like.value, speed: Number(this.speed.value)});
    this.askSoon();
  }

  /** @param {string} name */
  flip(name) {
    const {without} = this.change;
    this.change.without =
        without.includes(name) ? without.filter((n) => n !== name) : [...without, name];
    this.askSoon();
  }

  askSoon() {
    const batch = Number(this.batch.value);
    this.change.batch = Number.isInteger(batch) && batch > 0 ? batch : NaN;
    this.drawChips();
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.ask(), ASK_MS);
  }

  async ask() {
    const {base, change} = this;
    this.aborter.abort();
    this.aborter = new AbortController();
    if (!base) {
      return;
    }
    if (nodesWith(base.cluster.nodes, change).length === 0) {
      this.without('Without any node there is no step.');
      return;
    }
    if (!known(change.batch)) {
      this.without('The global batch is a whole number of samples, 1 or more.');
      return;
    }
    const spec = specWith(base.spec, base.cluster, change);
    try {
      const {signal} = this.aborter;
      const answer = /** @type {Api.DryRun} */ (await post('jobs?dryRun=true', spec, {signal}));
      const row = chosenOf(answer);
      if (row) {
        this.draw(row);
      } else {
        this.without(reasonOf(answer));
      }
    } catch (e) {
      this.fail(e);
    }
  }

  drawChips() {
    const {base, change} = this;
    const own = (base?.cluster.nodes || []).map(({name}) => {
      const on = !change.without.includes(name);
      return h('button', {
        type: 'button',
        class: 'chip',
        data: {node: name},
        'aria-pressed': String(on),
        on: {click: () => this.flip(name)}
      },
          icon(on ? 'check' : 'plus', 11), name);
    });
    const more = change.added.map(
        (a, i) => h('button', {
          type: 'button',
          class: 'chip',
          'aria-label': 'Take the copy of ' + a.like + ' out again',
          on: {
            click: () => {
              change.added.splice(i, 1);
              this.askSoon();
            }
          }
        },
            icon('cross', 11), 'copy of ' + a.like,
            h('small', {text: SPEEDS.find(([v]) => Number(v) === a.speed)?.[1] || ''})));
    fill(this.chips, own, more);
  }

  /** @param {Api.StrategyPrediction} row */
  draw(row) {
    const {base, change} = this;
    const {job} = this.view.data;
    if (!base) {
      return;
    }
    this.drawChips();
    this.show(true);
    say(this.says, whatIf(change, globalBatch(job), base.row, row));
    const changes = cloneChanges(job, change);
    this.clone.hidden = !changes || Object.keys(changes).length === 0;
    this.clone.setAttribute('href', cloneWith(job.id, changes || {}));
    this.drawBars(row.workers || [], base.row.workers || []);
  }

  /**
   * @param {Api.PredictedWorker[]} then
   * @param {Api.PredictedWorker[]} now
   */
  drawBars(then, now) {
    const steps = stepTimes(then);
    const before = Math.max(...stepTimes(now).map((s) => s.all));
    const line = Math.max(1e-9, ...steps.map((s) => s.all));
    const scale = Math.max(line, before) * ROOM;
    const was = new Map(now.map((w) => [w.node, w.batch]));
    say(this.line, seconds(line));
    placeLine(this.line, line / scale);
    fill(this.body, then.map((w, i) => {
      const bar = new FinishBar();
      const {own, exchange, wait} = steps[i];
      const from = was.get(w.node);
      const colour = this.view.key.colour(w.node);
      bar.set({own, rest: exchange + wait, equal: NaN, scale, colour, label: ''});
      bar.node.style.setProperty('--line-at', 100 * line / scale + '%');
      return h('tr', {data: {node: w.node}}, h('td', null, this.view.key.label(w.node)),
          h('td', {class: 'num'},
              known(from) && from !== w.batch && h('span', {class: 'quiet', text: from + ' → '}),
              h('b', {class: 'strong', text: whole(w.batch)})),
          h('td', {class: 'fin-cell'}, bar.node));
    }));
  }

  /* A program's step is not known before it runs, and a job without nodes has none to change. */
  update() {
    const {job} = this.view.data;
    this.node.hidden = Boolean(job.spec?.program) || (job.workers || []).length === 0;
  }

  close() {
    clearTimeout(this.timer);
    this.aborter.abort();
  }
}
