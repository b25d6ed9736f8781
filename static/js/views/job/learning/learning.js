/* Loss and accuracy, one under the other, with their rails and the key of the marks. */
import {h, say} from '../../../elements/dom.js';

import {AccuracyChart} from './accuracychart.js';
import {LossChart} from './losschart.js';

/** @typedef {import('../view.js').JobView} JobView */

/** @type {{[kind: string]: string}} */
const MARKS = {
  change: 'dashed: minibatch change',
  lost: 'solid: node lost, restart',
  left: 'solid: node left',
  failed: 'solid: failure',
  restart: 'solid: node lost, restart',
  resume: 'dashed: pause',
  resize: 'solid: change of size',
  crash: 'solid: program started again',
  rate: 'dotted: learning rate',
  checkpoint: 'tick: checkpoint'
};

/** @implements {Page.Part} */
export class Learning {
  /**
   * @param {JobView} view
   * @param {Element} lane the lane of events, which shares the charts' plot edge
   */
  constructor(view, lane) {
    this.view = view;
    this.loss = new LossChart(view);
    this.accuracy = new AccuracyChart(view);
    this.key = h('p', {class: 'legend events-key'});
    this.node = h('section', {'aria-label': 'Loss and accuracy', class: 'row learning'},
        h('div', null, lane, this.loss.chart.node, this.accuracy.chart.node),
        h('div', {class: 'rails'}, this.key, this.loss.rail.node, this.accuracy.rail.node));
  }

  update() {
    const kinds = [...new Set(this.view.group.marks.map((m) => MARKS[m.kind]))];
    say(this.key, kinds.join('  ·  '));
    this.loss.draw();
    this.accuracy.draw();
    this.point();
  }

  point() {
    this.loss.drawRail();
    this.accuracy.drawRail();
  }
}
