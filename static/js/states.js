/* States of jobs and nodes as pills: icon and word, never a colour alone. */
import {h} from './dom.js';
import {icon} from './icons.js';

const JOBS = {
  queued: ['clock', 'Queued', ''],
  launching: ['ring', 'Launching', 'run'],
  running: ['ring', 'Running', 'run'],
  pausing: ['pause', 'Pausing', 'warn'],
  paused: ['pause', 'Paused', 'warn'],
  cancelling: ['stop', 'Cancelling', ''],
  cancelled: ['stop', 'Cancelled', ''],
  succeeded: ['check', 'Succeeded', 'ok'],
  failed: ['cross', 'Failed', 'bad'],
};
const NODES = {
  ready: ['check', 'free', 'ok'],
  busy: ['ring', 'busy', 'run'],
  draining: ['down', 'drained', 'warn'],
  disabled: ['stop', 'disabled', ''],
  lost: ['cross', 'lost', 'bad'],
};

export const active = (state) => ['launching', 'running', 'pausing', 'cancelling'].includes(state);
export const ended = (state) => ['succeeded', 'failed', 'cancelled'].includes(state);
export const waiting = (state) => state === 'queued' || state === 'paused';

export function pill(state) {
  const [name, text, tone] = JOBS[state] || ['clock', state, ''];
  return h('span', {class: 'pill', data: {tone, state}}, icon(name, 12), h('span', {text}));
}

export function setPill(node, state) {
  return node.dataset.state === state ? node : (node.replaceWith(node = pill(state)), node);
}

export function nodeState(state) {
  const [name, text, tone] = NODES[state] || ['clock', state, ''];
  return {icon: h('span', {class: 'state-icon', data: {tone}}, icon(name, 13)), text, tone};
}
