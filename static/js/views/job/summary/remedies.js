/* What you can do about a failed job: each remedy with what it changes, and a button that submits
   it. The first stands in the page's head too, as its one primary button. */
import {fill, h, refill} from '../../../elements/dom.js';
import {button, notice} from '../../../elements/widgets.js';
import {CHECKPOINTS, continued, mayGoOn, remedies} from '../../../sentences/remedies.js';
import {get, job as path, post} from '../../../service/api.js';
import {mayChange} from '../../../service/rights.js';

import {failedAlike} from './firsterror.js';

/** @typedef {import('../view.js').JobView} JobView */
/** @typedef {import('../../../sentences/remedies.js').Remedy} Remedy */

export class Remedies {
  /** @param {JobView} view */
  constructor(view) {
    this.view = view;
    this.data = view.data;
    /** The job's files; null: not known yet. */
    /** @type {string[] | null} */
    this.artifacts = null;
    /** Of the cluster. */
    /** @type {Api.Node[]} */
    this.nodes = [];
    this.asked = false;
    this.list = h('div', {class: 'remedies', id: 'remedies'});
    this.fault = h('div', {role: 'alert'});
    this.node = h('div', {hidden: true}, this.list, this.fault);
  }

  update() {
    const {job, evaluations} = this.data;
    this.node.hidden = job.state !== 'failed' || !mayChange();
    if (this.node.hidden) {
      return;
    }
    if (!this.asked) {
      this.asked = true;
      this.read();
    }
    if (!this.artifacts) {
      return;
    }
    const alike = Boolean(job.error?.program?.every_rank) ||
        failedAlike(this.view.logs?.linesOf('all') || [], job);
    const {artifacts, nodes} = this;
    const all = remedies({job, artifacts, tests: evaluations, alike, nodes});
    refill(this.list, JSON.stringify(all),
        () => [all.length > 0 && h('h2', {class: 'strong', text: 'What you can do'}),
            all.map((r) => this.row(r))]);
    this.view.head.actions.offer(all[0], (pressed, fault) => this.submit(all[0], pressed, fault));
  }

  /* Reads the job's files, and which nodes share a host. A dry run tells whether there is a
   * checkpoint. */
  async read() {
    const {job, evaluations: tests} = this.data;
    const dry = () => post('jobs?dryRun=true', continued(job)).then(() => [CHECKPOINTS], () => []);
    const [written, goesOn, nodes] = await Promise.all([
      get(path(this.data.id, 'artifacts')).then((a) => a.artifacts || []).catch(() => []),
      mayGoOn({job, tests}) ? dry() : [],
      get('nodes').then((all) => all.nodes || []).catch(() => [])
    ]);
    this.nodes = nodes;
    this.artifacts = [...written.map((/** @type {Api.Artifact} */ a) => a.name), ...goesOn];
    this.update();
  }

  /** @param {Remedy} remedy */
  row(remedy) {
    const made = button(remedy.button, () => this.submit(remedy, made, this.fault));
    return h('div', {class: 'remedy'},
        h('div', null, h('p', {class: 'strong', text: remedy.title}),
            h('p', {class: 'quiet', text: remedy.effect})),
        made);
  }

  /**
   * @param {Remedy} remedy
   * @param {HTMLButtonElement} pressed
   * @param {HTMLElement} fault where a refusal is told
   */
  async submit(remedy, pressed, fault) {
    pressed.disabled = true;
    fill(fault);
    try {
      location.hash = '#/jobs/' + (await post('jobs', remedy.spec)).id;
    } catch (e) {
      const {message, hint} = /** @type {import('../../../service/api.js').ApiError} */ (e);
      fill(fault, notice('bad', message + (hint ? '; ' + hint : '')));
    }
    pressed.disabled = false;
  }
}
