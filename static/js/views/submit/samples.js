/* A preview of the chosen data set: the number of samples of each class, and sixteen samples. It
   is requested when it is opened, since reading may take a second. */
import {fill, h} from '../../elements/dom.js';
import {draw as drawPicture} from '../../elements/picture.js';
import {notice} from '../../elements/widgets.js';
import {get} from '../../service/api.js';
import {plural, whole} from '../../text/format.js';

/** Classes that are counted one by one. */
const CLASSES_MOST = 20;

/** @param {Api.DatasetClass} c */
const nameOf = (c) => c.name ?? String(c.class);

/** @param {Api.DatasetClass[]} classes */
function counts(classes) {
  const first = classes.slice(0, CLASSES_MOST).map((c) => whole(c.samples) + ' of ' + nameOf(c));
  const rest = classes.length - first.length;
  return first.join(', ') + (rest > 0 ? ' and ' + plural(rest, 'more class', 'more classes') : '');
}

/** @param {Api.DatasetShown} shown */
function examples(shown) {
  return h('ul', {class: 'worst'}, shown.examples.filter((x) => x.picture).map((x) => {
    const text = x.label === null
        ? 'sample ' + x.sample
        : nameOf(shown.classes[x.label] || {class: x.label, name: null, samples: 0});
    const picture = /** @type {Api.ScoredPicture} */ (x.picture);
    return h(
        'li', null, drawPicture(picture, 'Sample ' + x.sample + ': ' + text), h('span', {text}));
  }));
}

export class Samples {
  constructor() {
    this.body = h('div');
    this.node = h('details', {class: 'samples'}, h('summary', {text: 'Samples'}), this.body);
    this.node.addEventListener('toggle', () => this.draw());
    this.path = '';
    /** The data set that is drawn. */
    this.drawn = '';
  }

  /** @param {string} path of a data set that is there; '': none */
  show(path) {
    this.path = path;
    this.node.hidden = !path;
    this.draw();
  }

  async draw() {
    const {path} = this;
    if (!this.node.open || !path || path === this.drawn) {
      return;
    }
    this.drawn = path;
    try {
      const shown = await get('datasets/samples', {path});
      if (path === this.path) {
        fill(this.body, shown.classes.length > 0 && h('p', {text: counts(shown.classes)}),
            examples(shown));
      }
    } catch (e) {
      this.drawn = '';
      fill(this.body, notice('warn', /** @type {Error} */ (e).message));
    }
  }
}
