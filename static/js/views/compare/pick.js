/* The dialog in which runs to compare are chosen, newest first; those that were chosen already keep
   their letters. */
import {h} from '../../elements/dom.js';
import {get} from '../../service/api.js';
import {strategyOf} from '../../spec/spec.js';
import {when} from '../../text/format.js';

import {MOST} from './model.js';

/** @param {Api.Job} j */
function about(j) {
  const text = strategyOf(j.spec) + ', ' + j.state + ', ' + when(j.created);
  return h('span', {class: 'quiet', text});
}

/**
 * @param {string[]} ids
 * @param {(ids: string[]) => void} choose
 */
export async function pickRuns(ids, choose) {
  /** @type {{jobs: Api.Job[]}} */
  const {jobs} = await get('jobs', {limit: 100});
  const boxes = jobs.map(
      (job) => ({job, box: h('input', {type: 'checkbox', checked: ids.includes(job.id)})}));
  const picker = h('div', {class: 'picker'},
      boxes.map(({job, box}) => h('label', null, box, h('span', {text: job.name}), about(job))),
      jobs.length === 0 && h('p', {class: 'quiet', text: 'There is no job yet.'}));
  const close = () => {
    if (dialog.returnValue === 'ok') {
      const chosen = boxes.filter(({box}) => box.checked).map(({job}) => job.id);
      const kept = ids.filter((id) => chosen.includes(id));
      choose([...new Set([...kept, ...chosen])].slice(0, MOST));
    }
    dialog.remove();
  };
  const dialog = h('dialog', {'aria-labelledby': 'pick-title', on: {close}},
      h('h2', {id: 'pick-title', class: 'strong', text: 'Runs to compare, up to eight'}),
      h('form', {method: 'dialog'}, picker,
          h('div', {class: 'actions end'}, h('button', {class: 'btn', value: 'no', text: 'Cancel'}),
              h('button', {class: 'btn primary', value: 'ok', text: 'Compare'}))));
  document.body.append(dialog);
  dialog.showModal();
}
