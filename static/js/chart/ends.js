/* Labels at the right edge of a chart, where its lines end; they keep their distance. */
import {fill, h} from '../elements/dom.js';

import {spread} from './scale.js';

/**
 * @param {HTMLElement} box
 * @param {Dygraphs.Graph} graph
 * @param {{ends: Page.End[], range: number[]}} data
 * @param {number} gap pixels between two labels
 */
export function drawEnds(box, graph, {ends, range}, gap) {
  const area = graph.getArea();
  const wanted = ends.map((e) => graph.toDomYCoord(Math.min(Math.max(e.y, range[0]), range[1])))
                     .map((v) => (Number.isFinite(v) ? v : area.y));
  const at = spread(wanted, gap, area.y + 4, area.y + area.h - 2);
  while (box.children.length < ends.length) {
    box.append(h('span'));
  }
  while (box.children.length > ends.length) {
    box.lastChild?.remove();
  }
  ends.forEach((e, i) => {
    const node = /** @type {HTMLElement} */ (box.children[i]);
    const key = (e.mark || '') + '|' + e.text;
    if (node.dataset.key !== key) {
      node.dataset.key = key;
      fill(node, e.icon ? e.icon() : null, e.text);
    }
    node.className = (e.bold ? 'bold' : '') + (e.quiet ? ' quiet' : '');
    node.style.top = at[i] + 'px';
    node.style.left = (area.x + area.w + 6) + 'px';
  });
}
