/* Making and changing elements. Text goes in as text nodes only, so nothing a user named (jobs, nodes, log lines) is
   ever read as markup; styles go through CSSOM, which a strict Content-Security-Policy allows. */
const SVG = 'http://www.w3.org/2000/svg';

function put(node, props) {
  for (const [key, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) {
      continue;
    }
    if (key === 'text') {
      node.textContent = value;
    } else if (key === 'on') {
      for (const [type, fn] of Object.entries(value)) {
        node.addEventListener(type, fn);
      }
    } else if (key === 'style') {
      for (const [name, v] of Object.entries(value)) {
        node.style.setProperty(name, v);
      }
    } else if (key === 'data') {
      Object.assign(node.dataset, value);
    } else if (key === 'value' || key === 'checked' || key === 'disabled' || key === 'hidden') {
      node[key] = value;
    } else {
      node.setAttribute(key, value === true ? '' : value);
    }
  }
}

function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== undefined && child !== null && child !== false) {
      node.append(child instanceof Node ? child : document.createTextNode(String(child)));
    }
  }
  return node;
}

export function h(tag, props, ...children) {
  const node = document.createElement(tag);
  put(node, props);
  return append(node, children);
}

export function s(tag, props, ...children) {
  const node = document.createElementNS(SVG, tag);
  put(node, props);
  return append(node, children);
}

export function fill(node, ...children) {
  node.replaceChildren();
  return append(node, children);
}

/* Changes a text only where it differs, so that a live page does not lay out again for nothing. */
export function say(node, text) {
  const wanted = text === undefined || text === null ? '' : String(text);
  if (node.textContent !== wanted) {
    node.textContent = wanted;
  }
}

/* A list whose elements stay the same nodes while their items change: focus and hover survive a live update. */
export function keyed(parent, items, keyOf, make, update) {
  const old = parent.keyedNodes || new Map();
  const now = new Map();
  let at = parent.firstElementChild;
  for (const [i, item] of items.entries()) {
    const key = keyOf(item, i);
    const entry = old.get(key) || make(item, i);
    old.delete(key);
    now.set(key, entry);
    const node = entry.node || entry;
    if (node === at) {
      at = at.nextElementSibling;
    } else {
      parent.insertBefore(node, at);
    }
    if (update) {
      update(entry, item, i);
    }
  }
  for (const entry of old.values()) {
    (entry.node || entry).remove();
  }
  parent.keyedNodes = now;
}

export function segment(label, choices, value, onPick) {
  const box = h('div', {class: 'seg', role: 'group', 'aria-label': label});
  const buttons = choices.map(([id, text]) => h('button', {
                                type: 'button',
                                text,
                                'aria-pressed': String(id === value),
                                on: {
                                  click() {
                                    pick(id);
                                    onPick(id);
                                  }
                                }
                              }));
  function pick(id) {
    choices.forEach(([other], i) => buttons[i].setAttribute('aria-pressed', String(other === id)));
  }
  box.append(...buttons);
  box.pick = pick;
  return box;
}

export function toggle(label, value, onChange) {
  const text = h('span', {text: label});
  const box =
      h('button', {
        type: 'button',
        class: 'switch',
        role: 'switch',
        'aria-checked': String(value),
        on: {
          click() {
            box.set(box.getAttribute('aria-checked') !== 'true');
            onChange(box.getAttribute('aria-checked') === 'true');
          }
        }
      },
        h('i'), text);
  box.set = (v) => box.setAttribute('aria-checked', String(v));
  box.label = (t) => say(text, t);
  return box;
}

/* Calls fn at most once in `ms`, the last time always. */
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
      timer = setTimeout(run, Math.max(0, last + ms - performance.now()));
    }
  };
  call.cancel = () => {
    clearTimeout(timer);
    timer = 0;
  };
  return call;
}

export function cssVar(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
