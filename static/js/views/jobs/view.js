/* The overview: opens on what is running. A sentence about the cluster, running jobs with their
   verdict, waiting jobs with what they wait for, finished ones, and the nodes at a glance. */
import {fill, h, throttle} from '../../elements/dom.js';

import {emptyPage} from './empty.js';
import {FinishedJobs} from './finished.js';
import {Lead} from './lead.js';
import {JobsModel} from './model.js';
import {NodesAtAGlance} from './nodes.js';
import {RunningJobs} from './running.js';
import {WaitingJobs} from './waiting.js';

const DRAW_MS = 250;
const SEARCH_MS = 200;

class JobsView {
  /**
   * @param {Element} root
   * @param {Page.Route} route
   * @param {JobsModel} data
   */
  constructor(root, route, data) {
    this.root = root;
    this.route = route;
    this.data = data;
    this.parts = {
      lead: new Lead(data),
      running: new RunningJobs(data),
      waiting: new WaitingJobs(data),
      finished: new FinishedJobs(data),
      nodes: new NodesAtAGlance(data)
    };
    /** @type {HTMLInputElement} */
    this.find = h('input', {
      type: 'search',
      id: 'find',
      placeholder: 'Find jobs and nodes',
      'aria-label': 'Find jobs and nodes',
      on: {input: throttle(() => data.search(this.find.value.trim()), SEARCH_MS)}
    });
    this.page = this.makePage();
    this.empty = emptyPage(() => data.nodes);
    this.drawSoon = throttle(() => this.draw(), DRAW_MS);
    data.addEventListener('change', this.drawSoon);
  }

  makePage() {
    const {lead, running, waiting, finished, nodes} = this.parts;
    const head = h('div', {class: 'head overview-lead'}, h('div', {class: 'title'}, lead.node),
        h('div', {class: 'finder'}, this.find));
    return h('div', null, head,
        h('div', {class: 'split'}, h('div', null, running.node, waiting.node, finished.node),
            h('div', null, nodes.node)));
  }

  draw() {
    if (!this.route.alive()) {
      return;
    }
    if (this.data.jobs.size === 0 && !this.data.query) {
      fill(this.root, this.empty);
      return;
    }
    if (!this.page.isConnected) {
      fill(this.root, this.page);
    }
    Object.values(this.parts).forEach((part) => part.update());
  }

  close() {
    this.data.close();
    this.drawSoon.cancel();
  }
}

/**
 * @param {Element} root
 * @param {Page.Route} route
 * @returns {Promise<Page.View>}
 */
export async function show(root, route) {
  document.title = 'Jobs · Evenstep';
  const data = new JobsModel();
  await data.load();
  if (!route.alive()) {
    return {};
  }
  const view = new JobsView(root, route, data);
  data.start();
  view.draw();
  if (route.params.has('find')) {
    view.find.focus();
  }
  return view;
}
