/* Making and changing elements. Text goes in as text nodes only, so nothing a user named (jobs,
   nodes, log lines) is ever read as markup; styles go through CSSOM, which a strict
   Content-Security-Policy allows. */
const SVG = 'http://www.w3.org/2000/svg';
const PROPERTIES = ['value', 'checked', 'disabled', 'hidden'];

/**
 * @param {HTMLElement | SVGElement} node
 * @param {string} key
 * @param {any} value
 */
function putOne(node, key, value) {
  if (key === 'text') {
    node.textContent = value;
  } else if (key === 'on') {
    for (const [type, fn] of Object.entries(value)) {
      node.addEventListener(type, /** @type {EventListener} */ (fn));
    }
  } else if (key === 'style') {
    for (const [name, v] of Object.entries(value)) {
      node.style.setProperty(name, v);
    }
  } else if (key === 'data') {
    Object.assign(node.dataset, value);
  } else if (PROPERTIES.includes(key)) {
    /** @type {any} */ (node)[key] = value;
  } else {
    node.setAttribute(key, value === true ? '' : value);
  }
}

/**
 * @param {HTMLElement | SVGElement} node
 * @param {Page.Props | null} [props]
 */
function put(node, props) {
  for (const [key, value] of Object.entries(props || {})) {
    if (value !== undefined && value !== null && value !== false) {
      putOne(node, key, value);
    }
  }
}

/**
 * @param {Element} node
 * @param {Page.Child[]} children
 */
function append(node, children) {
  for (const child of /** @type {any[]} */ (children).flat(Infinity)) {
    if (child !== undefined && child !== null && child !== false) {
      node.append(child instanceof Node ? child : document.createTextNode(String(child)));
    }
  }
}

/**
 * An HTML element with its properties and children.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Page.Props | null} [props]
 * @param {Page.Child[]} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, props, ...children) {
  const node = document.createElement(tag);
  put(node, props);
  append(node, children);
  return node;
}

/**
 * An SVG element with its properties and children.
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {Page.Props | null} [props]
 * @param {Page.Child[]} children
 * @returns {SVGElementTagNameMap[K]}
 */
export function s(tag, props, ...children) {
  const node = document.createElementNS(SVG, tag);
  put(node, props);
  append(node, children);
  return node;
}

/* The children that keyed() made, by their parent. */
/** @type {WeakMap<Element, Map<unknown, any>>} */
const lists = new WeakMap();

/**
 * Replaces the children of a node.
 * @param {Element} node
 * @param {Page.Child[]} children
 */
export function fill(node, ...children) {
  lists.delete(node);
  node.replaceChildren();
  append(node, children);
}

/**
 * Fills a node again only where its key differs from the last one.
 * @param {HTMLElement} node
 * @param {string} key
 * @param {() => Page.Child} make
 */
export function refill(node, key, make) {
  if (node.dataset.key !== key) {
    node.dataset.key = key;
    fill(node, make());
  }
}

/**
 * Changes a text only where it differs, so that a live page does not lay out again for nothing.
 * @param {Element} node
 * @param {unknown} text
 */
export function say(node, text) {
  const wanted = text === undefined || text === null ? '' : String(text);
  if (node.textContent !== wanted) {
    node.textContent = wanted;
  }
}

/**
 * Says one text in each of a row's cells; undefined leaves a cell as it is.
 * @param {Element[]} cells
 * @param {(string | undefined)[]} texts
 */
export function sayAll(cells, texts) {
  texts.forEach((text, i) => text !== undefined && say(cells[i], text));
}

/**
 * A list whose elements stay the same nodes while their items change: focus and hover survive a
 * live update. make() gives an element or anything with a `node`; update() gets that again.
 * @template T
 * @template {Element | {node: Element}} E
 * @param {Element} parent
 * @param {T[]} items
 * @param {(item: T, i: number) => unknown} keyOf
 * @param {(item: T, i: number) => E} make
 * @param {(entry: E, item: T, i: number) => void} [update]
 */
export function keyed(parent, items, keyOf, make, update) {
  /** @type {Map<unknown, E>} */
  const old = lists.get(parent) || new Map();
  /** @type {Map<unknown, E>} */
  const now = new Map();
  const nodeOf = (/** @type {E} */ entry) => (entry instanceof Element ? entry : entry.node);
  let at = parent.firstElementChild;
  for (const [i, item] of items.entries()) {
    const key = keyOf(item, i);
    const entry = old.get(key) || make(item, i);
    old.delete(key);
    now.set(key, entry);
    const node = nodeOf(entry);
    if (node === at) {
      at = at.nextElementSibling;
    } else {
      parent.insertBefore(node, at);
    }
    update?.(entry, item, i);
  }
  for (const entry of old.values()) {
    nodeOf(entry).remove();
  }
  lists.set(parent, now);
}

/**
 * Calls fn at most once in `ms`, the last time always.
 * @param {() => unknown} fn
 * @param {number} ms
 */
export function throttle(fn, ms) {
  let timer = 0;
  let last = -Infinity;
  const run = () => {
    timer = 0;
    last = performance.now();
    fn();
  };
  const call = () => {
    if (!timer) {
      timer = window.setTimeout(run, Math.max(0, last + ms - performance.now()));
    }
  };
  call.cancel = () => {
    clearTimeout(timer);
    timer = 0;
  };
  return call;
}

/**
 * The nearest element around an event's target that a selector names.
 * @param {Event} event
 * @param {string} css
 */
export function around(event, css) {
  return event.target instanceof Element ? event.target.closest(css) : null;
}

/** @param {string} name */
export function cssVar(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/**
 * The colour that a variable has now, or the colour itself.
 * @param {string} colour
 */
export function resolve(colour) {
  return colour.startsWith('var(') ? cssVar(colour.slice(4, -1)) : colour;
}
