/* The actions on a job: pause, resume, cancel, clone, compare, save, delete, and for a failed job
 * the first remedy. Cancel and delete ask once, and name what stops. An action's answer appears
 * next to its button. */
import {fill, h} from '../../../elements/dom.js';
import {active, ended} from '../../../elements/states.js';
import {button, notice, question} from '../../../elements/widgets.js';
import {job as path, post, remove} from '../../../service/api.js';
import {mayChangeThis} from '../../../service/rights.js';

import {saveOneFile} from './onefile.js';

/** @typedef {import('../view.js').JobView} JobView */
/** @typedef {import('../../../sentences/remedies.js').Remedy} Remedy */
/** @typedef {(pressed: HTMLButtonElement, fault: HTMLElement) => void} Submit */

export class Actions {
  /** @param {JobView} view */
  constructor(view) {
    this.view = view;
    this.data = view.data;
    this.node = h('div', {class: 'actions', id: 'job-actions'});
    this.question = h('div', {class: 'ask-place', role: 'alert'});
    this.shown = '';
    this.busy = false;
    /** The first remedy of a failed job. */
    /** @type {Remedy | undefined} */
    this.offered = undefined;
    /** @type {Submit} */
    this.submit = () => {};
  }

  /**
   * @param {Remedy | undefined} remedy
   * @param {Submit} submit
   */
  offer(remedy, submit) {
    this.offered = remedy;
    this.submit = submit;
    this.update();
  }

  update() {
    const {job} = this.data;
    const wanted = [job.state, job.name, this.offered?.button].join('|');
    if (this.shown !== wanted) {
      this.shown = wanted;
      fill(this.node, this.buttons(job));
      fill(this.question);
    }
  }

  /** @param {Api.Job} job */
  buttons(job) {
    const over = ended(job.state), own = mayChangeThis(job);
    return [
      job.state === 'failed' && this.offered && this.remedy(this.offered),
      own && job.state === 'running' && this.direct('Pause', 'pause', 'btn '),
      own && job.state === 'paused' && this.direct('Resume', 'resume', 'btn primary'),
      own && !over && job.state !== 'cancelling' &&
          this.asking('Cancel', 'cancel', cancelText(job), 'Cancel job'),
      h('a', {class: 'btn', href: '#/new?from=' + this.data.id, text: 'Clone'}),
      h('a', {class: 'btn', href: '#/compare?runs=' + this.data.id, text: 'Compare'}),
      over && button('Save as HTML', () => this.save(), {id: 'save-html'}),
      own && over && this.asking('Delete', 'delete', deleteText(job), 'Delete job')
    ];
  }

  /** @param {Remedy} offered */
  remedy(offered) {
    const {button: text, title} = offered;
    const made = button(
        text, () => this.submit(made, this.question), {id: 'remedy', class: 'btn primary', title});
    return made;
  }

  /**
   * @param {string} text
   * @param {string} what
   * @param {string} cls
   */
  direct(text, what, cls) {
    const made = button(text, () => this.act(what, made), {id: what, class: cls});
    return made;
  }

  /**
   * @param {string} text
   * @param {string} what
   * @param {string} asked
   * @param {string} yes
   */
  asking(text, what, asked, yes) {
    const made = button(text, () => this.ask(asked, yes, what, made), {id: what, class: 'btn '});
    return made;
  }

  /**
   * @param {string} what
   * @param {HTMLButtonElement} pressed
   */
  async act(what, pressed) {
    if (this.busy) {
      return;
    }
    this.busy = true;
    pressed.disabled = true;
    fill(this.question);
    try {
      if (what === 'delete') {
        await remove(path(this.data.id));
        location.hash = '#/';
      } else {
        await post(path(this.data.id, what));
      }
    } catch (e) {
      const {message, hint} = /** @type {import('../../../service/api.js').ApiError} */ (e);
      fill(this.question, notice('bad', message + (hint ? '; ' + hint : '')));
    }
    this.busy = false;
    pressed.disabled = false;
  }

  /* The run as one file that needs no server. */
  async save() {
    try {
      await this.view.complete(
          () => saveOneFile(this.data.id, this.data.job.name, () => this.view.drawAll()));
    } catch (e) {
      fill(this.question, notice('bad', /** @type {Error} */ (e).message));
    }
  }

  /**
   * @param {string} text
   * @param {string} yes
   * @param {string} what
   * @param {HTMLElement} opener
   */
  ask(text, yes, what, opener) {
    const confirm =
        button(yes, () => this.act(what, confirm), {class: 'btn danger', id: 'confirm-' + what});
    const back = () => {
      fill(this.question);
      opener.focus();
    };
    fill(this.question, question(text, [confirm], 'Keep it', back));
    confirm.focus();
  }
}

/** @param {Api.Job} job */
function cancelText(job) {
  return 'Cancel “' + job.name + '”? ' +
      (active(job.state) ? 'Training stops on all its nodes; what was recorded stays.'
                         : 'It leaves the queue.');
}

/** @param {Api.Job} job */
function deleteText(job) {
  return 'Delete “' + job.name +
      '” with its history, logs and artifacts? This cannot be taken back.';
}
