/* The bar over the charts: axis, smoothing, log axis, marks, follow. */
import {h} from '../../elements/dom.js';
import {active} from '../../elements/states.js';
import {button, control, Segment, smoothingSlider, Toggle} from '../../elements/widgets.js';
import {isVirtual} from '../../measures/measures.js';
import {stepWord} from '../../spec/spec.js';
import {capital, tick, whole} from '../../text/format.js';

/** @typedef {import('./view.js').JobView} JobView */

const FOLLOW = 'Follow the newest step';

/** @implements {Page.Part} */
export class Controls {
  /** @param {JobView} view */
  constructor(view) {
    this.view = view;
    const {group} = view;
    const {job} = view.data;
    const time = isVirtual(job) ? 'Virtual time' : 'Time';
    const axis = new Segment('X axis',
        [['step', capital(stepWord(job))], ['samples', 'Samples'], ['time', time]],
        view.data.curves.axis, (value) => this.setAxis(value));
    axis.node.id = 'axis';
    const log = new Segment('Loss axis', [['linear', 'Linear'], ['log', 'Log']], 'log',
        (value) => this.choose({log: value === 'log'}));
    const marks = new Segment('Marks', [['all', 'All'], ['changes', 'Changes'], ['none', 'None']],
        'all', (value) => this.choose({marks: value}));
    this.follow = new Toggle(FOLLOW, true, (on) => this.choose({follow: on}));
    this.follow.node.id = 'follow';
    this.whole = button('Whole run', () => group.setZoom(null), {class: 'btn small', hidden: true});
    this.node = h('div', {class: 'controls tight', role: 'toolbar', 'aria-label': 'Charts'},
        control('X axis', axis.node),
        smoothingSlider(view.smoothing, (value) => this.choose({smoothing: value})),
        control('Loss axis', log.node), control('Marks', marks.node),
        h('span', {class: 'right'}, this.whole, this.follow.node));
  }

  /** @param {Partial<JobView>} choice */
  choose(choice) {
    Object.assign(this.view, choice);
    this.view.draw('all');
  }

  /** @param {Page.Axis} axis */
  async setAxis(axis) {
    const {group, data} = this.view;
    group.zoom = null;
    group.axis = axis;
    group.hoverX = null;
    await data.setAxis(axis, null).catch(() => {});
    group.setFull(0, data.extent());
    this.view.draw('all');
  }

  /* Shows how much is new while the charts are held. */
  point() {
    const {group, follow, newest} = this.view;
    const held = !follow || group.zoom || group.hoverX !== null;
    const fresh = Math.max(0, newest - group.full[1]);
    const unit = {step: '', time: ' s', samples: ' samples'}[group.axis];
    const count = group.axis === 'step' ? whole(fresh) : tick(Math.round(fresh)) + unit;
    this.follow.label(held && fresh > 0 ? FOLLOW + ': ' + count + ' new' : FOLLOW);
  }

  update() {
    this.whole.hidden = !this.view.group.zoom;
    this.follow.node.hidden = !active(this.view.data.job.state); /* no newer step is to come */
    this.point();
  }
}
