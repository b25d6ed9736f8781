/* Runs side by side. The sentence names the winner and why; charts by time first; then the results
   with the best marked and only those settings that differ. The address keeps the choice. */
import {ChartGroup} from '../../chart/group.js';
import {fill, h, throttle} from '../../elements/dom.js';
import {
  button,
  control,
  copyButton,
  scroller,
  Segment,
  smoothingSlider
} from '../../elements/widgets.js';

import {Cards} from './cards.js';
import {CompareCharts} from './charts.js';
import {Differences} from './differences.js';
import {Histograms} from './histograms.js';
import {LoggedCharts} from './logged.js';
import {CompareModel} from './model.js';
import {pickRuns} from './pick.js';
import {Results} from './results.js';
import {Sentence} from './sentence.js';

const DRAW_MS = 250;

class CompareView {
  /**
   * @param {Element} root
   * @param {Page.Route} route
   * @param {CompareModel} data
   */
  constructor(root, route, data) {
    this.root = root;
    this.route = route;
    this.data = data;
    this.group = new ChartGroup();
    this.group.axis = data.axis;
    this.parts = {
      cards: new Cards(data, (id) => this.choose(data.ids.filter((other) => other !== id))),
      sentence: new Sentence(data),
      charts: new CompareCharts(data, this.group),
      logged: new LoggedCharts(data, this.group),
      results: new Results(data),
      differences: new Differences(data),
      histograms: new Histograms(data)
    };
    this.head = this.makeHead();
    this.sheet = this.makeSheet();
    this.empty = h('div', null,
        h('p', {class: 'lead', text: 'Choose two or more runs to compare.'}), h('p', {
          class: 'sub',
          text: 'Runs are shown by letter and colour; only the settings that differ are listed.'
        }),
        h('p', {class: 'actions failure'},
            h('a', {class: 'btn', href: '#/runs', text: 'Choose them from a table'})));
    this.drawSoon = throttle(() => this.draw(), DRAW_MS);
    data.addEventListener('change', this.drawSoon);
  }

  makeHead() {
    const add = button(
        'Add run', () => pickRuns(this.data.ids, (ids) => this.choose(ids)), {id: 'add-run'});
    const link = copyButton('Copy link', () => location.href);
    return h('div', {class: 'head'}, h('div', {class: 'title'}, h('h1', {text: 'Compare'})),
        h('div', {class: 'actions'}, add, link));
  }

  makeControls() {
    const {charts} = this.parts;
    const axis = new Segment('X axis', [['step', 'Step'], ['samples', 'Samples'], ['time', 'Time']],
        'time', (value) => this.setAxis(value));
    const logs =
        new Segment('Loss axis', [['linear', 'Linear'], ['log', 'Log']], 'log', (value) => {
          charts.log = value === 'log';
          this.drawSoon();
        });
    const smoothing = smoothingSlider(charts.smoothing, (value) => {
      charts.smoothing = value;
      this.drawSoon();
    });
    return h('div', {class: 'controls tight'}, control('X axis', axis.node), smoothing,
        control('Loss axis', logs.node));
  }

  makeSheet() {
    const {sentence, charts, logged, results, differences, histograms} = this.parts;
    const rail = h('div', {class: 'rail-side'},
        h('h3', {class: 'rail-head', text: 'Staleness, versions'}), histograms.node,
        h('h3', {class: 'rail-head differs-head', text: 'What differs in the settings'}),
        scroller('Settings that differ, table', differences.node));
    const title = h('div', {class: 'row-title'}, h('h2', {text: 'Results'}),
        h('span', {class: 'note', text: 'ticked: best in its line'}));
    return h('div', {class: 'sheet'}, sentence.node, this.makeControls(),
        h('section', {class: 'row compare-row'}, charts.node, rail), logged.node,
        h('section', {'aria-label': 'Results'}, title, scroller('Results, table', results.node)));
  }

  layout() {
    const {cards} = this.parts;
    fill(this.root, this.head, this.data.ids.length ? [cards.node, this.sheet] : this.empty);
  }

  /** @param {string[]} ids */
  choose(ids) {
    this.data.ids = ids;
    history.replaceState(null, '', '#/compare' + (ids.length ? '?runs=' + ids.join(',') : ''));
    this.layout();
    this.data.read();
  }

  /** @param {Page.Axis} axis */
  setAxis(axis) {
    this.group.axis = axis;
    this.group.zoom = null;
    this.data.setAxis(axis);
  }

  draw() {
    if (this.route.alive() && this.data.ids.length) {
      Object.values(this.parts).forEach((part) => part.update());
    }
  }

  close() {
    this.data.close();
    this.drawSoon.cancel();
    this.group.close();
  }
}

/**
 * @param {Element} root
 * @param {Page.Route} route
 * @returns {Promise<Page.View>}
 */
export async function show(root, route) {
  document.title = 'Compare · Evenstep';
  const data = new CompareModel((route.params.get('runs') || '').split(',').filter(Boolean));
  const view = new CompareView(root, route, data);
  view.layout();
  await data.read();
  data.start();
  return view;
}
