/* What the lists of the overview share: a sheet with a title and a count, a row that leads to its
   job, and a line about its strategy. */
import {around, h} from '../../elements/dom.js';
import {policyOf, strategyOf} from '../../spec/spec.js';
import {plural, three} from '../../text/format.js';

export class Sheet {
  /**
   * @param {string} title
   * @param {Element} content
   * @param {Element} [tools] at the right of the title
   */
  constructor(title, content, tools) {
    this.count = h('span', {class: 'note'});
    this.node = h('section', {class: 'sheet', 'aria-label': title},
        h('div', {class: 'sheet-head'}, h('h2', {text: title}), this.count,
            tools && h('span', {class: 'tools'}, tools)),
        content);
  }
}

/** @param {Api.Job} job */
export const address = (job) => '#/jobs/' + job.id;

/** @param {Api.Job} job */
export const jobLink = (job) => h('a', {class: 'job-link', href: address(job), text: job.name});

/**
 * The properties of a row that as a whole is a link to its job.
 * @param {Api.Job} job
 * @returns {Page.Props}
 */
export function leadsTo(job) {
  const click = (/** @type {MouseEvent} */ e) => {
    if (!around(e, 'a')) {
      location.hash = address(job);
    }
  };
  return {class: 'link', data: {job: job.id}, on: {click}};
}

/** @param {Api.Job} job */
export function strategyLine(job) {
  const {spec} = job;
  const n = (job.workers || []).length || spec?.workers || 1;
  const rate = job.metrics?.samples_per_second || 0;
  return [
    strategyOf(spec) + ', ' + policyOf(spec), plural(n, spec?.cluster ? 'virtual node' : 'node'),
    rate > 0 && three(rate) + ' samples/s'
  ].filter(Boolean)
      .join(' · ');
}
