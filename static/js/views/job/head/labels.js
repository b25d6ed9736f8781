/* The job's labels: its project, its tags, a note; and the form that changes them. */
import {Field} from '../../../draft/fields.js';
import {FieldSet} from '../../../draft/fieldset.js';
import {fill, h, refill} from '../../../elements/dom.js';
import {button, notice} from '../../../elements/widgets.js';
import {job as path, patch} from '../../../service/api.js';
import {mayChangeThis} from '../../../service/rights.js';
import {ownTags, projectOf, sweepOf, tagsWith} from '../../../spec/tags.js';

/** @typedef {import('../view.js').JobView} JobView */
/** @typedef {import('../../../service/api.js').ApiError} ApiError */
/** @typedef {{project?: string, tags?: string[], note?: string}} Written */

/**
 * The runs that have this in a column, as a table.
 * @param {string} condition
 */
const runsWith = (condition) => '#/runs?' + new URLSearchParams({where: condition});

/** @extends {Field<HTMLTextAreaElement>} */
class Lines extends Field {
  /**
   * @param {string} pointer
   * @param {string} label
   * @param {(pointer: string, value: unknown) => void} onChange
   */
  constructor(pointer, label, onChange) {
    /** @type {HTMLTextAreaElement} */
    const control =
        h('textarea', {rows: 3, on: {input: () => onChange(pointer, control.value.trim())}});
    super(pointer, label, '', '', control);
    this.node.classList.add('wide');
  }
}

class LabelForm extends FieldSet {
  /**
   * @param {Api.Job} job
   * @param {(written: Written) => Promise<void>} save
   * @param {() => void} shut
   */
  constructor(job, save, shut) {
    /** @type {Written} */
    const written = {
      project: projectOf(job) || undefined,
      tags: ownTags(job),
      note: job.note || undefined
    };
    super((pointer, value) => Object.assign(written, {[pointer.slice(1)]: value}));
    /** The project's index among the tags that are sent (tags.js). */
    this.projectAt = '/tags/' + (sweepOf(job) ? 1 : 0);
    const project = this.input('/project', 'Project', {help: 'runs of one project fold together'});
    const tags = this.input('/tags', 'Tags', {kind: 'names', help: 'with commas between'});
    const note = this.own(new Lines('/note', 'Note', this.onChange));
    project.show(written.project);
    tags.show(written.tags);
    note.show(written.note);
    this.first = project.control;
    this.other = h('div', {role: 'alert'});
    const submit = async (/** @type {Event} */ e) => {
      e.preventDefault();
      await save(written).catch((fault) => this.refuse(fault, written));
    };
    const keydown = (/** @type {KeyboardEvent} */ e) => e.key === 'Escape' && shut();
    this.node = h('form', {class: 'label-form', on: {submit, keydown}},
        h('div', {class: 'fields'}, project.node, tags.node, note.node), this.other,
        h('p', {class: 'label-tools'}, h('button', {class: 'btn small', text: 'Save'}),
            button('Cancel', shut, {class: 'btn small ghost'})));
  }

  /**
   * @param {ApiError} fault
   * @param {Written} written
   */
  refuse({message, errors = []}, {project}) {
    const at = errors.map(
        (e) => (project && e.pointer === this.projectAt ? {...e, pointer: '/project'} : e));
    const homeless = this.faults(at);
    fill(this.other, (homeless.length > 0 || !errors.length) && notice('bad', message));
  }
}

/** @implements {Page.Part} */
export class Labels {
  /** @param {JobView} view */
  constructor(view) {
    this.data = view.data;
    this.shown = h('div', {class: 'labels-shown'});
    this.edit = button('', () => this.open(), {class: 'btn small ghost', id: 'edit-labels'});
    this.place = h('div');
    this.tools = h('p', {class: 'label-tools'}, this.edit);
    this.node = h('div', {class: 'labels', id: 'labels'}, this.shown, this.tools, this.place);
  }

  update() {
    const {job} = this.data;
    const [project, tags, note] = [projectOf(job), ownTags(job), job.note || ''];
    refill(this.shown, JSON.stringify([project, tags, note]),
        () => [project && h('a', {
          class: 'tag',
          href: runsWith('job/project=' + project),
          text: 'project ' + project
        }),
            tags.map((t) => h('a', {class: 'tag', href: runsWith('job/tags~' + t), text: t})),
            note && h('p', {class: 'note-text', text: note})]);
    const any = project || tags.length || note;
    this.tools.hidden = !mayChangeThis(job);
    this.edit.textContent = any ? 'Edit tags and note' : 'Add tags or a note';
  }

  open() {
    const shut = () => {
      fill(this.place);
      this.edit.hidden = this.shown.hidden = false;
      this.edit.focus();
    };
    const form = new LabelForm(this.data.job, async (written) => {
      await this.save(written);
      shut();
    }, shut);
    this.edit.hidden = this.shown.hidden = true;
    fill(this.place, form.node);
    form.first.focus();
  }

  /** @param {Written} written */
  async save({project = '', tags = [], note = ''}) {
    const {job} = this.data;
    const changed = await patch(
        path(this.data.id), {tags: tagsWith(job, project.trim(), tags), note: note || null});
    Object.assign(this.data.job, {tags: changed.tags, note: changed.note});
    this.update();
  }
}
