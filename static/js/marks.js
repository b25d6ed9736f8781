/* What happened to a job, as marks on its x axis: minibatch changes, lost nodes and restarts, changes of the learning
 * rate, checkpoints. */
export function marksOf(data, choice = 'all') {
  const marks = [];
  if (choice === 'none') {
    return marks;
  }
  data.placed().forEach((a, i) => {
    if (!a.restart && i > 0) {
      marks.push(
          {kind: 'change', step: a.at, text: 'v' + a.version, title: 'minibatches v' + a.version + ': ' + a.reason});
    } else if (a.restart && !data.lost.some((l) => Math.abs(l.at - new Date(a.time).getTime()) < 60000)) {
      marks.push({kind: 'restart', step: a.at, text: 'restart', title: 'a new attempt: ' + a.reason});
    }
  });
  for (const l of data.lost) {
    marks.push({
      kind: 'lost',
      step: l.step,
      time: l.time,
      text: (l.node ? l.node + ' lost' : 'attempt lost') + ', restart',
      title: l.text || 'an attempt was lost'
    });
  }
  if (choice === 'all') {
    const schedule = data.job.spec?.optimizer?.schedule;
    if (schedule && schedule.type === 'step') {
      for (const epoch of schedule.at_epochs || []) {
        const step = data.stepOfEpoch(epoch);
        if (data.job.progress && data.job.progress.epoch >= epoch && Number.isFinite(step)) {
          marks.push({
            kind: 'rate',
            step,
            text: 'rate ×' + schedule.factor,
            title: 'the learning rate is multiplied by ' + schedule.factor + ' at epoch ' + epoch
          });
        }
      }
    }
    for (const c of data.checkpoints) {
      marks.push({kind: 'checkpoint', step: c.step, time: c.time, text: '', title: 'checkpoint of step ' + c.step});
    }
  }
  for (const m of marks) {
    m.x = data.xOfStep(m.step, m.time);
  }
  return marks.filter((m) => Number.isFinite(m.x)).sort((a, b) => a.x - b.x);
}

/* Where smoothing starts anew. */
export function cutsOf(marks) {
  return marks.filter((m) => m.kind !== 'change' && m.kind !== 'checkpoint').map((m) => m.x);
}
