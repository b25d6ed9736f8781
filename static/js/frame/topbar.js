/* The bar at the top of every page: logo, tabs, whether the service answers, new job, theme, menu.
 */
import {fill, h, say, throttle} from '../elements/dom.js';
import {icon} from '../elements/icons.js';
import {get} from '../service/api.js';
import {stream} from '../service/events.js';
import {plural} from '../text/format.js';

const NODES_MS = 5000;
/** @type {{[tab: string]: [string, string]}} address, text */
const TABS = {
  jobs: ['#/', 'Jobs'],
  nodes: ['#/nodes', 'Nodes'],
  compare: ['#/compare', 'Compare'],
  /* css shows these to admins alone */
  people: ['#/people', 'People'],
  audit: ['#/audit', 'Audit']
};
/** @type {{[theme: string]: [string, string]}} icon, label */
const THEMES = {
  auto: ['half', 'Theme: system'],
  light: ['sun', 'Theme: light'],
  dark: ['moon', 'Theme: dark']
};
const STATES = {
  live: 'Live',
  away: 'No answer',
  connecting: 'Connecting'
};

class ThemeButton {
  constructor() {
    const click = () => this.next();
    this.node = h('button', {type: 'button', class: 'btn ghost icon', id: 'theme', on: {click}});
    this.draw();
  }

  next() {
    const order = Object.keys(THEMES);
    const at = order.indexOf(window.evenstepTheme.choice());
    window.evenstepTheme.set(order[(at + 1) % order.length]);
    this.draw();
  }

  draw() {
    const [name, label] = THEMES[window.evenstepTheme.choice()] || THEMES.auto;
    fill(this.node, icon(name, 16));
    this.node.setAttribute('aria-label', label);
    this.node.title = label;
  }
}

export class TopBar {
  /** @param {Element} place */
  constructor(place) {
    this.links = Object.fromEntries(Object.entries(TABS).map(
        ([id, [href, text]]) => [id, h('a', {href, text, class: 'to-' + id})]));
    this.nav = h('nav', {id: 'nav', 'aria-label': 'Pages'}, Object.values(this.links),
        h('a', {href: '#/new', class: 'phone-only', text: 'New job'}));
    this.stateText = h('span', {text: 'Connecting'});
    this.nodes = h('small');
    this.live = h('div', {class: 'live', data: {state: 'connecting'}}, h('span', {class: 'dot'}),
        this.stateText, this.nodes);
    this.menu = this.makeMenu();
    /** Says how many nodes there are; the banner says it where they cannot be read. */
    this.countNodes = throttle(() => this.readNodes().catch(() => {}), NODES_MS);
    const add =
        h('a', {class: 'btn new', href: '#/new', id: 'new-job'}, icon('plus', 12), 'New job');
    const logo = h('a', {class: 'logo', href: '#/', 'aria-label': 'Evenstep, to the jobs'},
        icon('logo', 16), h('span', {text: 'Evenstep'}));
    fill(place, logo, this.nav,
        h('div', {class: 'right'}, this.live, add, new ThemeButton().node, this.menu));
  }

  /** @returns {HTMLButtonElement} */
  makeMenu() {
    const click = () =>
        this.menu.setAttribute('aria-expanded', String(this.nav.classList.toggle('open')));
    return h('button', {
      type: 'button',
      class: 'btn ghost icon menu-button',
      'aria-label': 'Menu',
      'aria-expanded': 'false',
      'aria-controls': 'nav',
      on: {click}
    },
        icon('menu', 16));
  }

  async readNodes() {
    const {nodes} = await get('nodes');
    say(this.nodes, plural(nodes.length, 'node'));
  }

  drawState() {
    this.live.dataset.state = stream.state;
    say(this.stateText, STATES[stream.state]);
  }

  /**
   * Marks the tab of the page.
   * @param {string | undefined} tab
   */
  setTab(tab) {
    this.nav.classList.remove('open');
    for (const [id, link] of Object.entries(this.links)) {
      if (tab === id) {
        link.setAttribute('aria-current', 'page');
      } else {
        link.removeAttribute('aria-current');
      }
    }
  }
}
