/* Elements that several views are made of: buttons, choices, notices, tables. Each gives back the
   element, or an object with it as `node` where it can be changed later. */
import {h, s, say} from './dom.js';
import {icon} from './icons.js';

/**
 * @param {string} text
 * @param {(event: MouseEvent) => unknown} onClick
 * @param {Page.Props} [props]
 */
export function button(text, onClick, props) {
  return h('button', {type: 'button', class: 'btn', text, on: {click: onClick}, ...props});
}

/**
 * A button that copies a text and says so.
 * @param {string} text
 * @param {() => string} make
 * @param {Page.Props} [props]
 * @param {number} [backAfterMs] when it reads as before again; 0: never
 */
export function copyButton(text, make, props, backAfterMs = 0) {
  const made = button(text, copy, props);
  async function copy() {
    await navigator.clipboard?.writeText(make()).then(() => say(made, 'Copied'), () => {});
    if (backAfterMs) {
      setTimeout(() => say(made, text), backAfterMs);
    }
  }
  return made;
}

/**
 * @param {'bad' | 'warn'} tone
 * @param {string} text
 */
export function notice(tone, text) {
  return h('p', {class: 'notice', data: {tone}}, tone === 'bad' ? icon('cross', 12) : icon('warn'),
      h('span', {text}));
}

/**
 * A question with its answers; Escape answers with no.
 * @param {string} text
 * @param {Element[]} answers
 * @param {string} no
 * @param {() => void} back
 */
export function question(text, answers, no, back) {
  const keydown = (/** @type {KeyboardEvent} */ e) => e.key === 'Escape' && back();
  return h('div', {class: 'ask', on: {keydown}}, h('span', {text}),
      h('span', {class: 'actions'}, answers, button(no, back)));
}

/**
 * A choice of one.
 * @template {string} T
 */
export class Segment {
  /**
   * @param {string} label
   * @param {[T, string][]} choices
   * @param {T} value
   * @param {(value: T) => void} onPick
   */
  constructor(label, choices, value, onPick) {
    this.buttons = choices.map(([id, text]) => h('button', {
      type: 'button',
      text,
      'aria-pressed': String(id === value),
      on: {
        click: () => {
          this.buttons.forEach(
              (b, i) => b.setAttribute('aria-pressed', String(choices[i][0] === id)));
          onPick(id);
        }
      }
    }));
    this.node = h('div', {class: 'seg', role: 'group', 'aria-label': label}, this.buttons);
  }
}

/* A switch. */
export class Toggle {
  /**
   * @param {string} label
   * @param {boolean} value
   * @param {(value: boolean) => void} onChange
   */
  constructor(label, value, onChange) {
    this.text = h('span', {text: label});
    this.node = h('button', {
      type: 'button',
      class: 'switch',
      role: 'switch',
      'aria-checked': String(value),
      on: {
        click: () => {
          const on = this.node.getAttribute('aria-checked') !== 'true';
          this.node.setAttribute('aria-checked', String(on));
          onChange(on);
        }
      }
    },
        h('i'), this.text);
  }

  /** @param {string} text */
  label(text) {
    say(this.text, text);
  }
}

/**
 * A choice among many, whose label is read aloud only.
 * @param {string} label
 * @param {[string, string][]} choices
 * @param {() => unknown} change
 */
export function choose(label, choices, change) {
  return h('select', {class: 'small', 'aria-label': label, on: {change}},
      choices.map(([value, text]) => h('option', {value, text})));
}

/**
 * How strongly curves are smoothed.
 * @param {number} value
 * @param {(value: number) => void} onInput
 */
export function smoothingSlider(value, onInput) {
  const out = h('output', {text: value.toFixed(2)});
  const slider = h('input', {
    type: 'range',
    class: 'slider',
    min: 0,
    max: 0.98,
    step: 0.01,
    value,
    'aria-label': 'Smoothing',
    on: {
      input() {
        say(out, Number(slider.value).toFixed(2));
        onInput(Number(slider.value));
      }
    }
  });
  return control('Smoothing', slider, out);
}

/**
 * @param {string} label
 * @param {Element[]} nodes
 */
export function control(label, ...nodes) {
  return h('span', {class: 'control'}, h('span', {text: label}), nodes);
}

/**
 * @typedef {string | [string, string] | Element} Head  text, text and its class, or the head
 * itself
 */

/**
 * @param {Head} head
 */
function headCell(head) {
  if (head instanceof Element) {
    return head;
  }
  return typeof head === 'string' ? h('th', {scope: 'col', text: head})
                                  : h('th', {class: head[1], scope: 'col', text: head[0]});
}

/** @param {Head[]} heads */
export function tableHead(heads) {
  return h('thead', null, h('tr', null, heads.map(headCell)));
}

/**
 * A table whose caption is read aloud only.
 * @param {string} caption
 * @param {Head[]} heads
 * @param {Element} body
 * @param {string} [cls]
 */
export function table(caption, heads, body, cls) {
  return h(
      'table', {class: cls}, h('caption', {class: 'sr', text: caption}), tableHead(heads), body);
}

/**
 * Heads over numbers.
 * @param {string[]} texts
 * @returns {[string, string][]}
 */
export function numeric(...texts) {
  return texts.map((text) => [text, 'num']);
}

/**
 * A box that scrolls its content if it is too large, also by the keyboard.
 * @param {string} label
 * @param {Page.Child} content
 * @param {string} [cls]
 */
export function scroller(label, content, cls = '') {
  return h('div',
      {class: ('scroll ' + cls).trim(), tabindex: '0', role: 'region', 'aria-label': label},
      content);
}

/**
 * A list of names and values.
 * @param {[string, string][]} pairs
 * @param {Page.Props | null} [props]
 * @param {string} [nameClass]
 */
export function pairs(pairs, props, nameClass) {
  return h('dl', props, pairs.map(([k,
    v]) => h('div', null, h('dt', {class: nameClass, text: k}), h('dd', {text: v}))));
}

/**
 * The button that shows a box with the numbers of a chart.
 * @param {HTMLElement} box
 * @param {() => void} draw
 */
export function tableButton(box, draw) {
  const made = h('button', {
    type: 'button',
    class: 'btn ghost icon tool',
    'aria-label': 'Numbers as a table',
    title: 'Table',
    'aria-pressed': 'false',
    on: {
      click() {
        box.hidden = !box.hidden;
        made.setAttribute('aria-pressed', String(!box.hidden));
        if (!box.hidden) {
          draw();
        }
      }
    }
  },
      tableIcon());
  return made;
}

function tableIcon() {
  return s('svg', {
    viewBox: '0 0 16 16',
    width: 14,
    height: 14,
    fill: 'none',
    stroke: 'currentColor',
    'stroke-width': 1.6,
    'aria-hidden': 'true'
  },
      s('path', {d: 'M2 3h12v10H2zM2 6.3h12M2 9.6h12M6.5 6.3V13'}));
}
