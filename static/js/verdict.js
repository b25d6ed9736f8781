/* The page's one sentence: who, how much, against whom, what was done, what it gained. Pure, tested in
   tests/browser/test_pure.py.

   verdict(job, assignments) gives {parts, evidence, straggler, key}: parts is a list of texts and {node: name}; key
   names the cause, and the page changes its sentence only when the key changes or some seconds have passed. Speeds are
   compared per sample (computing time by minibatch), measured before the exchange. */
import {bytes, capital, duration, known, list, percent, plural, seconds, three, times} from './format.js';

const SLOWER = 1.15;

export function median(values) {
  const v = values.filter(known).sort((a, b) => a - b);
  return v.length ? (v.length % 2 ? v[(v.length - 1) / 2] : (v[v.length / 2 - 1] + v[v.length / 2]) / 2) : NaN;
}

export function perSample(worker) {
  return worker.batch > 0 && worker.compute_seconds > 0 ? worker.compute_seconds / worker.batch : NaN;
}

/* What one step of every worker takes, and how it is divided. */
export function stepTimes(workers) {
  return workers.map((w) => ({
                       node: w.node,
                       compute: w.compute_seconds || 0,
                       exchange: w.exchange_seconds || 0,
                       wait: w.wait_seconds || 0,
                       all: (w.compute_seconds || 0) + (w.exchange_seconds || 0) + (w.wait_seconds || 0),
                     }));
}

/* Computing time under an equal split: along the line through the origin scaled by the node's own speed unless a fixed
 * part is known. */
export function equalSplit(workers, globalBatch, fixed = {}) {
  const share = globalBatch / Math.max(1, workers.length);
  return workers.map((w) => {
    const a = known(fixed[w.node]) ? fixed[w.node] : 0;
    return w.batch > 0 ? a + (w.compute_seconds - a) * (share / w.batch) : NaN;
  });
}

function settled(job) {
  const p = job.progress || {};
  const took = job.started && job.finished ? (new Date(job.finished) - new Date(job.started)) / 1000 : NaN;
  const m = job.metrics || {};
  const result = known(m.test_accuracy) ? percent(m.test_accuracy) + ' test accuracy' :
      known(m.train_loss)               ? 'a train loss of ' + three(m.train_loss) :
                                          'its end';
  if (job.state === 'succeeded') {
    return 'The job reached ' + result + ' in ' + duration(took) + '.';
  }
  if (job.state === 'cancelled') {
    return 'The job was cancelled' +
        (p.step ? ' in epoch ' + Math.min(p.epochs, Math.floor(p.epoch) + 1) + ' of ' + p.epochs + '.' :
                  ' before its first step.');
  }
  return '';
}

function failure(job) {
  const e = job.error || {};
  const lost = /^rank \d+ on node '.*?' is lost: (.*?)\.?$/.exec(e.message || '');
  if (e.node && lost) {
    return {
      parts: [
        {node: e.node},
        ' was lost' +
            (job.progress?.step ? ' about step ' + Math.round(job.progress.step).toLocaleString('en-US') : '') + ': ' +
            lost[1] + '.'
      ],
      key: 'failed'
    };
  }
  const parts = e.node ?
      [
        {node: e.node},
        ' failed' + (job.progress?.step ? ' about step ' + Math.round(job.progress.step).toLocaleString('en-US') : '') +
            ': '
      ] :
      ['The job failed: '];
  const text = (e.message || 'no cause was reported').replace(/\.$/, '');
  return {parts: [...parts, text + '.'], key: 'failed'};
}

/* Nodes to which the keeper sends the data set, the one that has least of it first; or null. */
function receiving(job) {
  const share = (w) => w.receiving.bytes / w.receiving.of_bytes;
  const all = (job.workers || []).filter((w) => w.receiving && w.receiving.of_bytes > 0).sort((a, b) => share(a) - share(b));
  if (all.length === 0) {
    return null;
  }
  const done = percent(share(all[0]), 0) + ' of ' + bytes(all[0].receiving.of_bytes);
  return {
    parts: all.length === 1 ? [{node: all[0].node}, ' receives the data set: ' + done + '.'] :
                              [capital(counted(all.length)) + ' nodes receive the data set: ' + done + '.'],
    key: 'receives:' + Math.floor(10 * share(all[0]))
  };
}

function before(job) {
  const w = (job.spec && job.spec.workers) || 0;
  switch (job.state) {
    case 'queued':
      return job.waiting  ? 'The job waits: ' + job.waiting + '.' :
          job.attempt > 0 ? 'The job waits to be started again, from its last checkpoint.' :
                            'The job waits for ' + plural(w || 1, 'free node') + '.';
    case 'launching':
      return 'The job is being started on ' + plural(w || (job.workers || []).length || 1, 'node') + '.';
    case 'paused':
      return 'The job is paused; its checkpoint is kept and its nodes are free for others.';
    default:
      return 'The first steps are being measured.';
  }
}

function counted(n) {
  return ['no', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight'][n] || String(n);
}

function changed(assignments, node) {
  const own = assignments.filter((a) => a.batches && a.batches[node] !== undefined);
  return own.length > 1 ? [own[0].batches[node], own[own.length - 1].batches[node]] : null;
}

function gain(assignments) {
  const moved = assignments.filter(
      (a, i) => i > 0 && a.version > 1 && a.measured_step_seconds > 0 && a.predicted_step_seconds > 0);
  return moved.length ?
      {from: moved[0].measured_step_seconds, predicted: moved[moved.length - 1].predicted_step_seconds} :
      null;
}

function stalenessNote(job, slow) {
  const w = (job.workers || []).find((x) => x.node === slow);
  const mean = w && w.staleness ? w.staleness.mean : undefined;
  const others =
      median((job.workers || []).filter((x) => x.node !== slow).map((x) => (x.staleness ? x.staleness.mean : NaN)));
  if (!known(mean) || !known(others) || (mean === 0 && others === 0)) {
    return '';
  }
  return 'Its gradients are ' + mean.toFixed(1) +
      ' versions old on the average of the whole run, those of the others ' + others.toFixed(1) + '. ';
}

function running(job, assignments) {
  const workers = (job.workers || []).filter((w) => known(perSample(w)));
  if (workers.length === 0) {
    return {parts: [before(job)], key: job.state};
  }
  const steps = stepTimes(workers);
  const longest = Math.max(...steps.map((x) => x.compute));
  if (workers.length === 1) {
    return {
      parts:
          ['One node trains: a step of ' + plural(workers[0].batch, 'sample') + ' takes it ' + seconds(steps[0].all) +
           '.'],
      key: 'single'
    };
  }
  const mid = median(workers.map(perSample));
  const slow = workers.reduce((a, b) => (perSample(b) > perSample(a) ? b : a));
  const ratio = perSample(slow) / mid;
  const shortest = Math.min(...steps.map((x) => x.compute));
  const spread = longest > 0 ? (longest - shortest) / longest : 0;
  const moved = changed(assignments, slow.node);
  const policy = (job.spec && job.spec.batching && job.spec.batching.policy) || 'dynamic';
  const server = job.servers && job.servers.length > 0 && job.spec.strategy && job.spec.strategy.type !== 'sync';
  const evidence = 'Measured before the exchange: ' + seconds(perSample(slow)) + ' for a sample against a median of ' +
      seconds(mid) + '. ';
  if (ratio < SLOWER) {
    return {
      parts:
          ['The ' + counted(workers.length) + ' nodes are about equally fast: they finish a step within ' +
           percent(spread, 0) + ' of each other.'],
      evidence: 'The slowest needs ' + seconds(perSample(slow)) + ' for a sample, the median ' + seconds(mid) +
          '. Nothing needs doing.',
      key: 'even'
    };
  }
  const who = [{node: slow.node}, ' computes ' + times(ratio) + ' slower than the median node'];
  if (moved && moved[1] !== moved[0]) {
    const g = gain(assignments);
    const together = spread < 0.2;
    const tail = together ?
        '. All ' + counted(workers.length) + ' nodes now finish a step together: ' + seconds(longest) +
            ' of computing' + (g && g.from > longest * 1.05 ? ' instead of ' + seconds(g.from) : '') + '.' :
        '. Computing a step now takes between ' + seconds(shortest) + ' and ' + seconds(longest) +
            (g && g.from > longest * 1.05 ? ' instead of ' + seconds(g.from) : '') + '.';
    return {
      parts: [...who, ', so its minibatch went from ' + moved[0] + ' to ' + moved[1] + tail],
      evidence: stalenessNote(job, slow.node) + evidence + (together ? 'Nothing needs doing.' : ''),
      straggler: slow.node,
      key: 'moved:' + slow.node + (together ? ':together' : '')
    };
  }
  if (policy === 'dynamic') {
    const fits = spread < 0.2;
    return {
      parts: [
        ...who,
        fits ? '; its minibatch of ' + slow.batch + ' lets all ' + counted(workers.length) +
                ' finish a step together: ' + seconds(longest) + ' of computing.' :
               '. Its minibatch is still ' + slow.batch + '; it changes as soon as enough steps are measured.'
      ],
      evidence: stalenessNote(job, slow.node) + evidence,
      straggler: slow.node,
      key: (fits ? 'fits:' : 'measuring:') + slow.node
    };
  }
  const balanced = job.spec.batching.global_batch / workers.reduce((sum, w) => sum + 1 / perSample(w), 0);
  const shorter = 1 - balanced / longest;
  const advice = policy === 'equal' && shorter > 0.05 ?
      ' Dynamic minibatches would make a step about ' + percent(shorter, 0) + ' shorter.' :
      '';
  if (server) {
    return {
      parts: [...who, ', and the minibatches are ' + policy + ', so its gradients arrive late.' + advice],
      evidence: stalenessNote(job, slow.node) + evidence,
      straggler: slow.node,
      key: 'late:' + slow.node
    };
  }
  const waits = steps.filter((x) => x.node !== slow.node).map((x) => (longest > 0 ? 1 - x.compute / longest : 0));
  return {
    parts: [...who, ': the others wait ' + percent(median(waits), 0) + ' of each step for it.' + advice],
    evidence,
    straggler: slow.node,
    key: 'waits:' + slow.node
  };
}

export function verdict(job, assignments = []) {
  if (job.state === 'failed') {
    return failure(job);
  }
  const live = running(job, assignments);
  if (job.state === 'succeeded' || job.state === 'cancelled') {
    const past = live.straggler ? lastly(live) : [];
    return {...live, parts: [settled(job), ...past], key: job.state};
  }
  if (['queued', 'launching', 'paused'].includes(job.state)) {
    const error = job.error && job.state === 'queued' ? 'The last attempt was lost: ' + job.error.message + '.' : '';
    return {...(receiving(job) || {parts: [before(job)], key: job.state}), evidence: error};
  }
  return live;
}

/* The same in the past tense, after the result. */
function lastly(live) {
  const text = live.parts.map(
      (p) =>
          (typeof p === 'string' ? p.replace(' computes ', ' computed ')
                                       .replace(' now finish', ' then finished')
                                       .replace('. Nothing needs doing.', '') :
                                   p));
  return [' ', ...text];
}

export function plain(parts) {
  return parts.map((p) => (typeof p === 'string' ? p : p.node)).join('');
}
