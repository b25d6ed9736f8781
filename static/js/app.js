/* The frame around every page: top bar, banner, keys, and the router. An address is #/PAGE; a page is a module in
   views/ whose show(root, route) draws into root and gives back {close()}. Only this file changes what is in <main>. */
import {get, signedOut} from './api.js';
import {fill, h, say, throttle} from './dom.js';
import {listen, stream} from './events.js';
import {clock, duration, plural} from './format.js';
import {icon} from './icons.js';
import {bindKeys, showKeys} from './keys.js';
import {showSignIn, signIn} from './session.js';

const pages = [
  {pattern: /^$|^jobs$/, tab: 'jobs', load: () => import('./views/jobs.js')},
  {pattern: /^jobs\/([^/]+)$/, tab: 'jobs', load: () => import('./views/job.js')},
  {pattern: /^new$/, tab: 'jobs', load: () => import('./views/submit.js')},
  {pattern: /^nodes$/, tab: 'nodes', load: () => import('./views/nodes.js')},
  {pattern: /^compare$/, tab: 'compare', load: () => import('./views/compare.js')},
];
const main = document.getElementById('main');
const banner = document.getElementById('banner');
let current = null;
let turn = 0;
let signedIn = false;

/* ---- top bar ------------------------------------------------------------------------------------------------- */

const tabs = {
  jobs: ['#/', 'Jobs'],
  nodes: ['#/nodes', 'Nodes'],
  compare: ['#/compare', 'Compare']
};
const links = Object.fromEntries(Object.entries(tabs).map(([id, [href, text]]) => [id, h('a', {href, text})]));
const nav =
    h('nav', {id: 'nav', 'aria-label': 'Pages'}, Object.values(links),
      h('a', {href: '#/new', class: 'phone-only', text: 'New job'}));
const liveText = h('span', {text: 'Connecting'});
const liveMore = h('small');
const live = h('div', {class: 'live', data: {state: 'connecting'}}, h('span', {class: 'dot'}), liveText, liveMore);

const themes = {
  auto: ['half', 'Theme: as the system has it'],
  light: ['sun', 'Theme: light'],
  dark: ['moon', 'Theme: dark']
};
const themeButton = h('button', {
  type: 'button',
  class: 'btn ghost icon',
  id: 'theme',
  on: {
    click() {
      const order = Object.keys(themes);
      window.evenstepTheme.set(order[(order.indexOf(window.evenstepTheme.choice()) + 1) % order.length]);
      drawTheme();
    }
  }
});
function drawTheme() {
  const [name, label] = themes[window.evenstepTheme.choice()] || themes.auto;
  fill(themeButton, icon(name, 16));
  themeButton.setAttribute('aria-label', label);
  themeButton.title = label;
}
const menuButton =
    h('button', {
      type: 'button',
      class: 'btn ghost icon menu-button',
      'aria-label': 'Menu',
      'aria-expanded': 'false',
      'aria-controls': 'nav',
      on: {
        click() {
          menuButton.setAttribute('aria-expanded', String(nav.classList.toggle('open')));
        }
      }
    },
      icon('menu', 16));

function drawTop() {
  drawTheme();
  fill(
      document.getElementById('top'),
      h('a', {class: 'logo', href: '#/', 'aria-label': 'Evenstep, to the jobs'}, icon('logo', 16),
        h('span', {text: 'Evenstep'})),
      nav,
      h('div', {class: 'right'}, live,
        h('a', {class: 'btn new', href: '#/new', id: 'new-job'}, icon('plus', 12), 'New job'), themeButton,
        menuButton));
  document.getElementById('skip').addEventListener('click', () => main.focus());
}

const countNodes = throttle(async () => {
  try {
    const {nodes} = await get('nodes');
    say(liveMore, plural(nodes.length, 'node'));
  } catch (e) { /* the banner says what is wrong */
  }
}, 5000);

/* ---- is the service there? ------------------------------------------------------------------------------------ */

let bannerTimer = 0;
function drawState() {
  const state = stream.state;
  live.dataset.state = state;
  say(liveText, state === 'live' ? 'Live' : state === 'away' ? 'No answer' : 'Connecting');
  document.body.dataset.live = state;
  clearTimeout(bannerTimer);
  if (state === 'away' && signedIn) {
    const next = Math.max(0, Math.ceil(((stream.nextTry || 0) - Date.now()) / 1000));
    const text = 'No answer from the service since ' + clock(stream.since, true) + '. Training goes on; trying again' +
        (next ? ' in ' + next + ' s.' : ' now.');
    const box = banner.querySelector('.away');
    if (box) {
      say(box.querySelector('span'), text);
    } else {
      fill(
          banner,
          h('div', {class: 'away'}, icon('warn'), h('span', {text}),
            h('button', {type: 'button', class: 'btn small', text: 'Try now', on: {click: () => stream.tryNow()}})));
    }
    bannerTimer = setTimeout(drawState, 1000);
  } else if (banner.querySelector('.away')) {
    fill(banner, h('div', {class: 'back'}, icon('check'), h('span', {
                     text: 'Back since ' + clock(new Date(), true) + ', after ' + duration(stream.wasAwayFor) +
                         '. What came meanwhile was read again.'
                   })));
    bannerTimer = setTimeout(() => fill(banner), 6000);
    countNodes();
  }
}

/* ---- pages --------------------------------------------------------------------------------------------------- */

function parse() {
  const text = location.hash.replace(/^#\/?/, '');
  const [path, search] = text.split('?');
  return {path: decodeURIComponent(path.replace(/\/$/, '')), params: new URLSearchParams(search || '')};
}

async function route() {
  if (location.hash.startsWith('#token=')) {
    return start();
  }
  if (!signedIn) {
    return undefined;
  }
  const {path, params} = parse();
  const mine = ++turn;
  const page = pages.find((p) => p.pattern.test(path));
  nav.classList.remove('open');
  for (const [id, link] of Object.entries(links)) {
    if (page && page.tab === id) {
      link.setAttribute('aria-current', 'page');
    } else {
      link.removeAttribute('aria-current');
    }
  }
  current?.close?.();
  current = null;
  const root = h('div', {class: 'wrap'});
  fill(main, root);
  window.scrollTo(0, 0);
  if (!page) {
    document.title = 'Nothing here · Evenstep';
    root.append(
        h('h1', {text: 'There is nothing at this address.'}),
        h('p', {class: 'sub'}, h('a', {href: '#/', text: 'To the jobs'})));
    return undefined;
  }
  try {
    const view = await page.load();
    if (mine === turn) {
      current =
          await view.show(root, {args: page.pattern.exec(path).slice(1), params, alive: () => mine === turn, path});
      if (mine !== turn) {
        current?.close?.();
      }
    }
  } catch (e) {
    if (mine === turn && e.status !== 401) {
      showFailure(root, e);
    }
  }
  return undefined;
}

function showFailure(root, e) {
  document.title = 'Not shown · Evenstep';
  fill(
      root, h('h1', {text: e.status === 404 ? 'This is not here.' : 'This page cannot be shown.'}),
      h('p', {class: 'sub', text: e.message + (e.hint ? '; ' + e.hint : '')}),
      h('p', {class: 'actions failure'},
        h('button', {type: 'button', class: 'btn', text: 'Try again', on: {click: route}}),
        h('a', {class: 'btn', href: '#/', text: 'To the jobs'})));
}

function ask(message) {
  signedIn = false;
  document.body.dataset.signed = 'out';
  stream.stop();
  current?.close?.();
  current = null;
  turn++;
  fill(banner);
  showSignIn(main, message, start);
}

async function start() {
  const outcome = await signIn();
  if (outcome.session) {
    signedIn = true;
    document.body.dataset.signed = 'in';
    document.body.dataset.role = outcome.session.role || '';
    stream.start();
    countNodes();
    await route();
  } else {
    ask(outcome.message);
  }
}

drawTop();
bindKeys({showKeys});
stream.addEventListener('state', drawState);
listen({node: countNodes, gap: countNodes});
signedOut.addEventListener('out', () => signedIn && ask('Your session has ended.'));
window.addEventListener('hashchange', route);
start();
