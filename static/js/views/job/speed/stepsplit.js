/* How the time of a step is spent: loading data, computing, exchange and wait of each node, on one
   scale. Of a job that has ended they are means over the whole run, as in its sentence
   (sentences/speed.js); while it runs, those of the newest steps. */
import {h, keyed, say, sayAll} from '../../../elements/dom.js';
import {Few} from '../../../elements/few.js';
import {PhaseBar, phaseKey} from '../../../elements/figures.js';
import {noneYet} from '../../../elements/states.js';
import {numeric, table} from '../../../elements/widgets.js';
import {stepTimes} from '../../../measures/measures.js';
import {milliseconds} from '../../../text/format.js';

/** @typedef {import('../view.js').JobView} JobView */

export class StepSplit {
  /** @param {JobView} view */
  constructor(view) {
    this.view = view;
    this.head = h('h3', {class: 'rail-head'});
    this.body = h('tbody');
    this.node = table('Where a step goes, milliseconds per node',
        ['Node', ['One step', 'grow'], ...numeric('Load', 'Compute', 'Exch.', 'Wait')], this.body,
        'split-table');
    this.few = new Few(() => view.draw());
    this.key = phaseKey('data', 'compute', 'exchange', 'wait');
    this.empty = h('p', {class: 'quiet'});
  }

  draw() {
    const {data, key, chosen} = this.view;
    const over = data.learned.workers; /* of a run that is over */
    const steps = stepTimes(over || data.job.workers || []);
    say(this.head, 'Where a step goes, ms per node' + (over ? ', averaged over the run' : ''));
    const scale = Math.max(...steps.map((x) => x.all), 0);
    const any = scale > 0;
    this.node.hidden = this.key.hidden = !any;
    say(this.empty, any ? '' : noneYet(data.job.state, 'Measured as soon as steps end.'));
    const shown = this.few.of(steps, (x) => x.node === chosen || key.number(x.node) > 0);
    keyed(this.body, shown, (x) => x.node + key.number(x.node), (x) => this.makeRow(x.node),
        (row, x) => {
          const times = [x.load, x.compute, x.exchange, x.wait];
          row.node.classList.toggle('dim', Boolean(chosen) && chosen !== x.node);
          row.bar.set(times, scale);
          sayAll(row.cells, times.map((t) => milliseconds(t, scale)));
        });
  }

  /** @param {string} name */
  makeRow(name) {
    const bar = new PhaseBar();
    const cells = [0, 1, 2, 3].map(() => h('td', {class: 'num'}));
    const node = h('tr', null, h('td', null, this.view.key.label(name)),
        h('td', {class: 'grow'}, bar.node), cells);
    return {node, bar, cells};
  }
}
