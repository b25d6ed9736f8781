/* The course of the train loss, for runs whose accuracy says no more: networks that predict
 * numbers, users' programs. What a program's loss means is its own; a GAN's may well rise. Pure.
 * */
import {fell, median, rose} from '../measures/measures.js';
import {known, loss} from '../text/format.js';

import {course, FALLS} from './learning.js';
import {anotherRate, calmer, rateNote} from './nextrun.js';
import {tense} from './words.js';

/** @typedef {import('./health.js').Run} Run */

const ENOUGH_TESTS = 4; /* whose accuracy tells more */
const REGAINED = 0.1;   /* share of the loss's fall */
const NOISE = 3;        /* times the usual change from one loss to the next */

/**
 * Whether the loss is again at twice its least, or more, which is no noise.
 * @param {number[]} losses
 * @param {{start: number, end: number, least: number}} path
 */
function rises(losses, {start, end, least}) {
  const noise = median(losses.slice(1).map((v, i) => Math.abs(v - losses[i])));
  return rose(least, end, 1) && end - least > Math.max(NOISE * noise, REGAINED * (start - least));
}

/**
 * @param {Run} run
 * @returns {Page.Verdict | null}
 */
export function trend({job, losses, tests, past}) {
  const path = course(losses);
  const judged = tests.filter((t) => known(t.accuracy)).length >= ENOUGH_TESTS;
  const early = (job.progress?.epoch || 0) < (past ? 1 : 2);
  if (!path || judged || early || job.spec?.init) {
    return null;
  }
  const {start, end, least} = path;
  const up = rises(losses, path);
  if (!up && fell(start, end, FALLS)) {
    return null;
  }
  const say = tense(past);
  const again = up && fell(start, least, FALLS);
  const moved = up ? say('rises', 'rose') + (again ? ' again' : '')
                   : say('has ', '') +
          (end < start ? 'hardly ' + say('fallen', 'fell') : say('not fallen', 'did not fall'));
  return {
    parts: ['The train loss ' + moved + ': it began at ' + loss(start) +
      (again ? ', was down to ' + loss(least) : '') + ' and ' + say('is now ', 'ended at ') +
      loss(end) + '.'],
    evidence: rateNote(job, 'Another one', 'Another learning rate') + ' is the first thing to try' +
        (job.spec?.program ? ' where the program is to make its loss small.' : '.'),
    key: up ? 'rises' : 'still',
    chart: 'loss',
    action: up ? calmer(job) : anotherRate(job, false)
  };
}
