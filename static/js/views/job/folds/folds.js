/* Folded rows at the end of the sheet: workers and servers in full, the configuration, the
   confusion matrix, norms of layers, the hosts' load, artifacts. */
import {h} from '../../../elements/dom.js';

import {Artifacts} from './artifacts.js';
import {Configuration} from './configuration.js';
import {Confusion} from './confusion.js';
import {Layers} from './layers.js';
import {Load} from './load.js';
import {Workers} from './workers.js';

/** @typedef {import('../view.js').JobView} JobView */

/** @implements {Page.Part} */
export class Folds {
  /** @param {JobView} view */
  constructor(view) {
    this.workers = new Workers(view);
    this.configuration = new Configuration(view);
    this.confusion = new Confusion(view);
    this.layers = new Layers(view);
    this.load = new Load(view);
    this.artifacts = new Artifacts(view);
    this.node = h('div', {class: 'folds'}, this.workers.fold.node, this.configuration.fold.node,
        this.confusion.fold.node, this.layers.fold.node, this.load.fold.node,
        this.artifacts.fold.node);
  }

  /** @param {Set<string>} what */
  update(what) {
    this.workers.draw();
    this.configuration.draw();
    this.confusion.draw();
    this.layers.update(what);
    this.load.update(what);
    if (what.has('all') || what.has('job')) {
      this.artifacts.draw();
    }
  }

  point() {
    this.layers.point();
  }

  close() {
    this.layers.close();
  }
}
