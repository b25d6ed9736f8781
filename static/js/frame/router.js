/* Which page an address means, and showing it. An address is #/PAGE; a page is a folder in views/,
   whose view.js has show(root, route) and gives back {close()}. */
import {fill, h} from '../elements/dom.js';
import {button} from '../elements/widgets.js';
import {ApiError} from '../service/api.js';

/**
 * @typedef {{pattern: RegExp, tab: string, load: () => Promise<{
 *            show(root: Element, route: Page.Route): Promise<Page.View>}>}} PageEntry
 */

/** @type {PageEntry[]} */
const PAGES = [
  {pattern: /^$|^jobs$/, tab: 'jobs', load: () => import('../views/jobs/view.js')},
  {pattern: /^jobs\/([^/]+)$/, tab: 'jobs', load: () => import('../views/job/view.js')},
  {pattern: /^runs$/, tab: 'jobs', load: () => import('../views/runs/view.js')},
  {pattern: /^sweeps$/, tab: 'jobs', load: () => import('../views/sweeps/list.js')},
  {pattern: /^sweeps\/new$/, tab: 'jobs', load: () => import('../views/newsweep/view.js')},
  {pattern: /^sweeps\/([^/]+)$/, tab: 'jobs', load: () => import('../views/sweeps/view.js')},
  {pattern: /^new$/, tab: 'jobs', load: () => import('../views/submit/view.js')},
  {pattern: /^nodes$/, tab: 'nodes', load: () => import('../views/nodes/view.js')},
  {pattern: /^people$/, tab: 'people', load: () => import('../views/people/view.js')},
  {pattern: /^audit$/, tab: 'audit', load: () => import('../views/audit/view.js')},
  {pattern: /^compare$/, tab: 'compare', load: () => import('../views/compare/view.js')},
];

/* Path and parameters of the address. */
function parse() {
  const [path, search] = location.hash.replace(/^#\/?/, '').split('?');
  return {
    path: decodeURIComponent(path.replace(/\/$/, '')),
    params: new URLSearchParams(search || '')
  };
}

export class Router {
  /**
   * @param {Element} main which only the router and the sign-in fill
   * @param {(tab: string | undefined) => void} onTab
   */
  constructor(main, onTab) {
    this.main = main;
    this.onTab = onTab;
    /** @type {Page.View | null} */
    this.current = null;
    /** Counts pages, so that one that loads too late is not shown. */
    this.turn = 0;
  }

  /* Leaves the page; one that still loads is not shown. */
  leave() {
    this.turn++;
    this.current?.close?.();
    this.current = null;
  }

  /* Shows what the address means. */
  async route() {
    const {path, params} = parse();
    const page = PAGES.find((p) => p.pattern.test(path));
    this.onTab(page?.tab);
    this.leave();
    const root = h('div', {class: 'wrap'});
    fill(this.main, root);
    window.scrollTo(0, 0);
    if (page) {
      await this.show(page, root, path, params);
    } else {
      document.title = 'Nothing here · Evenstep';
      fill(root, h('h1', {text: 'There is nothing at this address.'}),
          h('p', {class: 'sub'}, h('a', {href: '#/', text: 'To the jobs'})));
    }
  }

  /**
   * @param {PageEntry} page
   * @param {Element} root
   * @param {string} path
   * @param {URLSearchParams} params
   */
  async show(page, root, path, params) {
    const mine = this.turn;
    const alive = () => mine === this.turn;
    const args = (page.pattern.exec(path) || []).slice(1);
    try {
      const module = await page.load().catch(() => {
        window.dispatchEvent(new Event('part-missing'));
        throw new ApiError(0, {detail: 'a part of it did not load'});
      });
      if (alive()) {
        const view = await module.show(root, {args, params, alive, path});
        if (alive()) {
          this.current = view;
          window.dispatchEvent(new Event('part-shown'));
        } else {
          view.close?.();
        }
      }
    } catch (e) {
      if (alive() && /** @type {ApiError} */ (e).status !== 401) {
        this.showFailure(root, /** @type {ApiError} */ (e));
      }
    }
  }

  /**
   * "Try again" loads the whole page, as reload.js does for a part that did not load.
   * @param {Element} root
   * @param {ApiError} e
   */
  showFailure(root, e) {
    document.title = 'Not shown · Evenstep';
    const title = e.status === 404 ? 'Not found.' : 'This page cannot be shown.';
    fill(root, h('h1', {text: title}),
        h('p', {class: 'sub', text: e.message + (e.hint ? '; ' + e.hint : '')}),
        h('p', {class: 'actions failure'}, button('Try again', () => location.reload()),
            h('a', {class: 'btn', href: '#/', text: 'To the jobs'})));
  }
}
