/* People, for admins: who may sign in, and what each owner of jobs has. The menu hides the page
   from others, and the service tells tokens to admins only. */
import {fill, h} from '../../elements/dom.js';

import {PeopleModel} from './model.js';
import {Owners} from './owners.js';
import {Tokens} from './tokens.js';

/** @typedef {import('../../service/api.js').ApiError} ApiError */

class PeopleView {
  /**
   * @param {Element} root
   * @param {Page.Route} route
   */
  constructor(root, route) {
    this.route = route;
    this.data = new PeopleModel();
    this.fault = h('p', {class: 'sub fault', role: 'alert'});
    this.parts = [new Tokens(this.data, (ask) => this.run(ask)), new Owners(this.data)];
    fill(root, h('div', {class: 'head'}, h('div', {class: 'title'}, h('h1', {text: 'People'}))),
        this.fault, this.parts.map((p) => p.node));
  }

  /**
   * Does it and draws what came of it; true: it went well.
   * @param {() => Promise<unknown>} ask
   */
  async run(ask) {
    let well = true;
    this.fault.textContent = '';
    try {
      await ask();
    } catch (e) {
      const {message, errors = []} = /** @type {ApiError} */ (e);
      this.fault.textContent = /* the message has the first error */
          errors.length > 1 ? errors.map((f) => f.message).join('; ') : message;
      well = false;
    }
    if (this.route.alive()) {
      this.draw();
    }
    return well;
  }

  draw() {
    this.parts.forEach((p) => p.update());
  }
}

/**
 * @param {Element} root
 * @param {Page.Route} route
 */
export async function show(root, route) {
  document.title = 'People · Evenstep';
  const view = new PeopleView(root, route);
  await view.data.read();
  view.draw();
  return {};
}
