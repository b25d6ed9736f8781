/* A finished run as one HTML file that needs no server: the page as it is shown, its charts as
   pictures, its styles within, and the run's documents and series as JSON. The file runs no script
   and asks for nothing: its own Content-Security-Policy says so. It is light or dark as its reader
   is, so each chart is there in both themes. */
import {h} from '../../../elements/dom.js';
import {get, job as path} from '../../../service/api.js';

const POLICY = 'default-src \'none\'; style-src \'unsafe-inline\'; img-src data:';
const PARTS = ['evaluations', 'assignments', 'staleness'];
const POINTS = 1000; /* of each series */
/* Elements that do nothing without the service or without a script. */
const LEFT_OUT = 'script, link, .skip, #top, #banner, noscript, .actions, .ask-place, .crumbs, ' +
    '.lanes-caption, .controls, .drawer, .tool, .label-tools, #whatif, #advice, ' +
    '.remedies, .few, [hidden]';
const QUIET = 'button { pointer-events: none } .rows, .folds { margin-bottom: 24px } ' +
    'picture { display: contents } .pictures { overflow: auto hidden }';
const CHART = '.chart';
const DARK = '(prefers-color-scheme: dark)';
const THEMES = ['light', 'dark'];

/* The colours of the dark theme, for readers whose browser asks for it. */
function darkStyles() {
  const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]);
  const dark = rules.find((r) => r instanceof CSSStyleRule && /data-theme/.test(r.selectorText));
  return '@media ' + DARK + ' { :root { ' + /** @type {CSSStyleRule} */ (dark).style.cssText +
      ' } }';
}

/** The text of every style sheet of the page. */
async function styles() {
  const sheets =
      /** @type {HTMLLinkElement[]} */ ([...document.querySelectorAll('link[rel=stylesheet]')]);
  const texts = await Promise.all(sheets.map(async ({href}) => (await fetch(href)).text()));
  return [...texts, darkStyles(), QUIET].join('\n');
}

/**
 * The run's documents and series.
 * @param {string} id
 */
async function factsOf(id) {
  const [job, series, logged, ...parts] = await Promise.all([
    get(path(id)), get(path(id, 'series'), {names: 'all', points: POINTS}),
    get(path(id, 'logged'), {points: POINTS}), ...PARTS.map((part) => get(path(id, part)))
  ]);
  return {job, series, logged: logged.metrics, ...Object.assign({}, ...parts)};
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
 * Paints the page in a theme. It takes two frames, since charts hear of the change in one.
 * @param {string} theme
 * @param {() => void} paint what is not painted at once
 */
async function paintIn(theme, paint) {
  document.documentElement.dataset.theme = theme;
  window.dispatchEvent(new Event('evenstep-theme'));
  for (let frame = 0; frame < 2; frame++) {
    await new Promise(requestAnimationFrame);
  }
  paint();
}

/**
 * The picture of each canvas in both themes; '' for one that is not drawn.
 * @param {() => void} paint
 * @returns {Promise<string[][]>}
 */
async function paintings(paint) {
  const own = document.documentElement.dataset.theme || THEMES[0];
  const painted = [];
  try {
    for (const theme of THEMES) {
      await paintIn(theme, paint);
      painted.push([...document.querySelectorAll('canvas')].map(
          (c) => (c.width > 0 && c.height > 0 ? c.toDataURL() : '')));
    }
  } finally {
    await paintIn(own, paint);
  }
  return painted;
}

/**
 * A picture in place of a canvas, with the same size.
 * @param {HTMLCanvasElement} canvas
 * @param {string} light
 * @param {string} dark
 */
function asPicture(canvas, light, dark) {
  const image = h('img', {src: light, alt: canvas.getAttribute('aria-label') || ''});
  image.className = canvas.className;
  image.style.cssText = canvas.style.cssText;
  return dark === light ? image
                        : h('picture', null, h('source', {media: DARK, srcset: dark}), image);
}

/**
 * A picture does not become narrower with the window, as a chart does: it keeps its width, and is
 * scrolled where that is more than there is.
 * @param {HTMLElement} copy
 */
function keepWidths(copy) {
  const copies = /** @type {NodeListOf<HTMLElement>} */ (copy.querySelectorAll(CHART));
  document.querySelectorAll(CHART).forEach((chart, i) => {
    copies[i].style.minWidth = chart.clientWidth + 'px';
    const room = copies[i].closest('.strips') || copies[i].parentElement;
    room?.classList.add('pictures');
    room?.setAttribute('tabindex', '0');
  });
}

/**
 * The page's document without what needs the service, its canvases as pictures.
 * @param {string[][]} painted
 */
function copyOfPage([light, dark]) {
  const copy = /** @type {HTMLElement} */ (document.documentElement.cloneNode(true));
  const blank = copy.querySelectorAll('canvas');
  document.querySelectorAll('canvas').forEach((canvas, i) => {
    if (light[i]) {
      blank[i].replaceWith(asPicture(canvas, light[i], dark[i]));
    }
  });
  keepWidths(copy);
  copy.removeAttribute('data-theme');
  copy.querySelectorAll(LEFT_OUT).forEach((node) => node.remove());
  dropEmptyFolds(copy);
  copy.querySelectorAll('a').forEach((a) => a.removeAttribute('href'));
  copy.querySelectorAll('[aria-live]').forEach((node) => node.removeAttribute('aria-live'));
  return copy;
}

/**
 * The file's text.
 * @param {string} id
 * @param {() => void} paint paints the page at once
 */
export async function oneFile(id, paint) {
  const [css, facts] = await Promise.all([styles(), factsOf(id)]);
  await drawSettings();
  const copy = copyOfPage(await paintings(paint));
  /* this is the only way to escape within a script */
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
 * @param {() => void} paint paints the page at once
 */
export async function saveOneFile(id, name, paint) {
  const href = URL.createObjectURL(new Blob([await oneFile(id, paint)], {type: 'text/html'}));
  const safe = name.replace(/[^A-Za-z0-9._-]+/g, '-') || 'run';
  const link = h('a', {href, download: safe + '-' + id.slice(0, 8) + '.html'});
  link.click();
  setTimeout(() => URL.revokeObjectURL(href), 60000);
}
