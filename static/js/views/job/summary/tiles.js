/* Four numbers: train loss, test accuracy, throughput, staleness. */
import {h, say} from '../../../elements/dom.js';
import {active, ended} from '../../../elements/states.js';
import * as measures from '../../../measures/measures.js';
import {bestEvaluation, idealRate, isVirtual} from '../../../measures/measures.js';
import {known, loss, NARROW, percent, plural, seconds, three, whole} from '../../../text/format.js';

/** @typedef {import('../view.js').JobView} JobView */

const RECENT = 100; /* updates at most: MEASURE_UPDATES of the coordinator's measure.h */

class Tile {
  /**
   * @param {string} label
   * @param {string} id
   */
  constructor(label, id) {
    this.value = h('span', {class: 'value'});
    this.unit = h('span', {class: 'unit'});
    this.more = h('p', {class: 'quiet'});
    this.name = h('p', {class: 'quiet', text: label});
    this.node =
        h('div', {class: 'tile', id}, this.name, h('p', null, this.value, this.unit), this.more);
  }

  /**
   * @param {string} value 'none' or 'none yet' where there is none
   * @param {string} unit
   * @param {string} more
   */
  set(value, unit, more) {
    const none = value === 'none' || value === 'none yet';
    say(this.value, value);
    this.value.classList.toggle('none', none);
    say(this.unit, none ? '' : unit);
    say(this.more, more);
  }
}

export class Tiles {
  /** @param {JobView} view */
  constructor(view) {
    this.data = view.data;
    this.loss = new Tile('Train loss', 'tile-loss');
    this.accuracy = new Tile('Test accuracy', 'tile-accuracy');
    this.throughput = new Tile('Throughput', 'tile-throughput');
    this.staleness = new Tile('Staleness p95', 'tile-staleness');
    const tiles = [this.loss, this.accuracy, this.throughput, this.staleness];
    this.node = h('div', {class: 'tiles'}, tiles.map((t) => t.node));
  }

  update() {
    const {job} = this.data;
    const m = job.metrics || {};
    this.loss.set(known(m.train_loss) ? loss(m.train_loss) : this.none(), '', this.lossesOf(job));
    this.drawTest(job);
    this.drawThroughput(job);
    this.drawStaleness(job);
  }

  /**
   * The test accuracy; of a job without one its test loss.
   * @param {Api.Job} job
   */
  drawTest(job) {
    const {test_accuracy: accuracy, test_loss: lost} = job.metrics || {};
    const target = job.spec?.target?.test_accuracy;
    const classifies = known(accuracy) || measures.hasAccuracy(job, this.data.evaluations);
    say(this.accuracy.name, classifies ? 'Test accuracy' : 'Test loss');
    if (classifies) {
      this.accuracy.set(known(accuracy) ? (100 * accuracy).toFixed(1) : this.none(), NARROW + '%',
          target ? 'target ' + percent(target) : this.best());
    } else {
      this.accuracy.set(known(lost) ? loss(lost) : this.none(), '', this.best());
    }
  }

  /**
   * The train loss and its span, and the loss on the test set.
   * @param {Api.Job} job
   */
  lossesOf(job) {
    const {train_loss: train, test_loss: test, test_accuracy: accuracy} = job.metrics || {};
    const updates = Math.min(RECENT, job.progress?.step || 0);
    const coming = ended(job.state) ? 'never tested' : 'not tested yet';
    const untold = known(accuracy) ? '' : coming; /* a program may tell its accuracy alone */
    return [
      known(train) && 'mean of ' + plural(updates, 'update'),
      known(test) ? 'test ' + loss(test) : untold
    ].filter(Boolean)
        .join(', ');
  }

  /* The text in place of a missing figure, which may still come. */
  none() {
    return ended(this.data.job.state) ? 'none' : 'none yet';
  }

  best() {
    const best = bestEvaluation(this.data.evaluations);
    const value = !best        ? ''
        : known(best.accuracy) ? percent(best.accuracy)
        : known(best.loss)     ? loss(best.loss)
                               : '';
    return best && value ? 'best ' + value + ', epoch ' + Math.round(best.epoch) : '';
  }

  /** @param {Api.Job} job */
  drawThroughput(job) {
    const rate = job.metrics?.samples_per_second || 0;
    const ideal = idealRate(job.workers || []);
    const more = active(job.state) && ideal > 0 && rate > 0
        ? percent(Math.min(1, rate / ideal), 0) + ' of the ideal'
        : ended(job.state) ? 'at the end of the run'
                           : 'when it last ran';
    const said = isVirtual(job) ? 'of virtual time' : more;
    this.throughput.set(
        rate > 0 ? three(rate) : this.none(), NARROW + 'samples/s', rate > 0 ? said : '');
  }

  /** @param {Api.Job} job */
  drawStaleness(job) {
    const recent = job.staleness_recent;
    const now = (recent?.max !== undefined ? recent : job.staleness) || {};
    const any = (job.progress?.step || 0) > 0 && known(now.p95);
    const unit = NARROW + (now.p95 === 1 ? 'version' : 'versions');
    this.staleness.set(any ? whole(now.p95) : this.none(), unit, any ? this.agesOf(job, now) : '');
  }

  /**
   * @param {Api.Job} job
   * @param {Api.Staleness} now
   */
  agesOf(job, now) {
    if (now.max === 0) {
      return 'every gradient is fresh';
    }
    const each = measures.secondsPerVersion(job);
    const old = known(each) ? seconds((now.p95 ?? NaN) * each) + ', ' : '';
    return old + 'max ' + whole((job.staleness || now).max);
  }
}
