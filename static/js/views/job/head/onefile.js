/* A finished run as one HTML file that needs no server: the page as it is shown, its charts as
   pictures, its styles within, and the run's documents and series as JSON. The file runs no script
   and asks for nothing: its own Content-Security-Policy says so. */
import {h} from '../../../elements/dom.js';
import {get, job as path} from '../../../service/api.js';

const POLICY = 'default-src \'none\'; style-src \'unsafe-inline\'; img-src data:';
const PARTS = ['evaluations', 'assignments', 'staleness'];
const POINTS = 1000; /* of each series */
/* What does nothing without the service or without a script. */
const LEFT_OUT = 'script, link, .skip, #top, #banner, noscript, .actions, .ask-place, .crumbs, ' +
    '.lanes-caption, .controls, .drawer, .tool, .label-tools, #whatif, #advice, ' +
    '.remedies, .few, [hidden]';
const QUIET = 'button { pointer-events: none } .rows, .folds { margin-bottom: 24px }';

/** The text of every style sheet of the page. */
async function styles() {
  const sheets =
      /** @type {HTMLLinkElement[]} */ ([...document.querySelectorAll('link[rel=stylesheet]')]);
  const texts = await Promise.all(sheets.map(async ({href}) => (await fetch(href)).text()));
  return [...texts, QUIET].join('\n');
}

/**
 * The run's documents and series.
 * @param {string} id
 */
async function factsOf(id) {
  const [job, series, ...parts] = await Promise.all([
    get(path(id)), get(path(id, 'series'), {names: 'all', points: POINTS}),
    ...PARTS.map((part) => get(path(id, part)))
  ]);
  return {job, series, ...Object.assign({}, ...parts)};
}

/* A fold is drawn once it is opened. The settings belong into the file, opened or not. */
async function drawSettings() {
  const fold = /** @type {HTMLDetailsElement | null} */ (document.getElementById('configuration'));
  if (fold && !fold.open) {
    const drawn = new Promise((done) => fold.addEventListener('toggle', done, {once: true}));
    fold.open = true;
    await drawn;
    fold.open = false;
  }
}

/**
 * Folds that were not opened would open on nothing.
 * @param {HTMLElement} copy
 */
function dropEmptyFolds(copy) {
  copy.querySelectorAll('details.fold').forEach((fold) => {
    if (!fold.querySelector('.fold-body')?.textContent?.trim()) {
      fold.remove();
    }
  });
}

/**
 * What a canvas shows, as a picture of the same place and size.
 * @param {HTMLCanvasElement} canvas
 * @param {Element} twin its copy, which is blank
 */
function asPicture(canvas, twin) {
  const picture = h('img', {src: canvas.toDataURL(), alt: canvas.getAttribute('aria-label') || ''});
  picture.className = canvas.className;
  picture.style.cssText = canvas.style.cssText;
  twin.replaceWith(picture);
}

/* The page's document without what needs the service, its canvases as pictures. */
function copyOfPage() {
  const copy = /** @type {HTMLElement} */ (document.documentElement.cloneNode(true));
  const blank = copy.querySelectorAll('canvas');
  document.querySelectorAll('canvas').forEach((canvas, i) => {
    if (canvas.width > 0 && canvas.height > 0) {
      asPicture(canvas, blank[i]);
    }
  });
  copy.querySelectorAll(LEFT_OUT).forEach((node) => node.remove());
  dropEmptyFolds(copy);
  copy.querySelectorAll('a').forEach((a) => a.removeAttribute('href'));
  copy.querySelectorAll('[aria-live]').forEach((node) => node.removeAttribute('aria-live'));
  return copy;
}

/**
 * The file's text.
 * @param {string} id
 */
export async function oneFile(id) {
  const [css, facts] = await Promise.all([styles(), factsOf(id)]);
  await drawSettings();
  const copy = copyOfPage();
  /* in a script nothing is escaped but this way */
  const json = JSON.stringify(facts).replace(/</g, '\\u003c');
  copy.querySelector('head')?.append(
      h('meta', {'http-equiv': 'Content-Security-Policy', content: POLICY}),
      h('style', {text: css}));
  copy.querySelector('body')?.append(h('p', {
    class: 'quiet saved',
    text: 'Saved ' + new Date().toISOString().slice(0, 16).replace('T', ' ') +
        ' UTC. Charts are pictures; the run’s documents and series are in this file as JSON.'
  }),
      h('script', {type: 'application/json', id: 'run', text: json}));
  return '<!doctype html>\n' + copy.outerHTML + '\n';
}

/**
 * Hands the file to the browser as a download.
 * @param {string} id
 * @param {string} name of the job
 */
export async function saveOneFile(id, name) {
  const href = URL.createObjectURL(new Blob([await oneFile(id)], {type: 'text/html'}));
  const safe = name.replace(/[^A-Za-z0-9._-]+/g, '-') || 'run';
  const link = h('a', {href, download: safe + '-' + id.slice(0, 8) + '.html'});
  link.click();
  setTimeout(() => URL.revokeObjectURL(href), 60000);
}
