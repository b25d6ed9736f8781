/* The dialog in which runs to compare are chosen, newest first; those that were chosen already keep their letters. */
import {get} from '../api.js';
import {h} from '../dom.js';
import {when} from '../format.js';

export async function pickRuns(ids, choose) {
  const {jobs} = await get('jobs', {limit: 100});
  const boxes = jobs.map((j) => [j, h('input', {type: 'checkbox', checked: ids.includes(j.id)})]);
  const box =
      h('dialog', {
        'aria-labelledby': 'pick-title',
        on: {
          close() {
            if (box.returnValue === 'ok') {
              const chosen = boxes.filter(([, b]) => b.checked).map(([j]) => j.id);
              choose([...ids.filter((id) => chosen.includes(id)), ...chosen.filter((id) => !ids.includes(id))].slice(
                  0, 8));
            }
            box.remove();
          }
        }
      },
        h('h2', {id: 'pick-title', class: 'strong', text: 'Runs to compare, up to eight'}),
        h('form', {method: 'dialog'},
          h('div', {class: 'picker'},
            boxes.map(([j, b]) => h('label', null, b, h('span', {text: j.name}), h('span', {
                                      class: 'quiet',
                                      text: (j.spec?.strategy?.type || 'sync') + ', ' + j.state + ', ' + when(j.created)
                                    }))),
            jobs.length === 0 && h('p', {class: 'quiet', text: 'There is no job yet.'})),
          h('div', {class: 'actions end'}, h('button', {class: 'btn', value: 'no', text: 'Cancel'}),
            h('button', {class: 'btn primary', value: 'ok', text: 'Compare'}))));
  document.body.append(box);
  box.showModal();
}
