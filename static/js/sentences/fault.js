/* Which nodes may be the cause of a failure, so that the job can be tried without them. If a host's
 * disk lacks something, a user's program fails on every node of the host. If the program's folder
 * lacks it, it fails everywhere, since the folder goes to all nodes. Pure. */
import {becameNaN} from './failure.js';

/** @typedef {{job: Api.Job, alike?: boolean, nodes?: Api.Node[]}} Failed */

/* Exceptions of what one host may lack and another has. */
const OF_A_HOST = /^(ModuleNotFound|Import|FileNotFound|Permission|OS)Error/;
const OF_A_NODE = /^(Memory|Connection|Timeout)|CUDA|cuDNN/;
/* A path that begins at the program's folder. */
const BESIDE_THE_PROGRAM = /^FileNotFoundError: .*: (b?)(['"])(?!\/|\.\.\/).*\2$/;

/**
 * Before the first step the first exception ends all programs, whatever theirs would have been: it
 * tells of its node only where one may lack what another has.
 * @param {Api.Job} job
 */
function mayBeOfEveryNode(job) {
  const said = job.error?.program?.exception || '';
  const ofSome = (OF_A_HOST.test(said) && !BESIDE_THE_PROGRAM.test(said)) || OF_A_NODE.test(said);
  return said && !((job.progress?.step ?? 0) > 0) && !ofSome;
}

/**
 * The nodes that share what the failed one lacked; itself alone where it is not known who does.
 * @param {Failed} failed
 */
function sharing({job, nodes = []}) {
  const name = job.error?.node || '';
  const host = nodes.find((n) => n.name === name)?.host;
  const share = host && OF_A_HOST.test(job.error?.program?.exception || '');
  return share ? nodes.filter((n) => n.host === host).map((n) => n.name) : [name];
}

/**
 * The job's nodes that are at fault, and the others. No node is at fault if the job would fail on
 * the others too, as with wrong data or a bad loss.
 * @param {Failed} failed
 * @returns {{at: string[], others: string[]}}
 */
export function fault(failed) {
  const {job, alike} = failed;
  const names = (job.workers || []).map((w) => w.node);
  const common = becameNaN(job) || alike || job.error?.code === 'data' || job.spec?.cluster ||
      mayBeOfEveryNode(job);
  const bad = common ? [] : sharing(failed);
  return {at: names.filter((n) => bad.includes(n)), others: names.filter((n) => !bad.includes(n))};
}
