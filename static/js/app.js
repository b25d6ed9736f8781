/* Where the page begins: the frame around every page (top bar, banner, keys), signing in, and the
   router. */
import {Banner} from './frame/banner.js';
import {DiskNotice} from './frame/disk.js';
import {bindKeys} from './frame/keys.js';
import {Router} from './frame/router.js';
import {TopBar} from './frame/topbar.js';
import {signedOut} from './service/api.js';
import {listen, stream} from './service/events.js';
import {setRights} from './service/rights.js';
import {hasLink, signIn} from './service/session.js';
import {showSignIn} from './views/login/view.js';

/** @param {string} id of an element of index.html */
const place = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

const main = place('main');
const top = new TopBar(place('top'));
const banner = new Banner(place('banner'), top.countNodes);
const disk = new DiskNotice(place('banner'));
const router = new Router(main, (tab) => top.setTab(tab));
let signedIn = false;

function drawState() {
  top.drawState();
  document.body.dataset.live = stream.state;
  banner.draw(signedIn);
}

/** @param {string | undefined} message why the session is not good any more */
function signOut(message) {
  signedIn = false;
  document.body.dataset.signed = 'out';
  stream.stop();
  router.leave();
  banner.clear();
  disk.stop();
  showSignIn(main, message, start);
}

async function start() {
  const outcome = await signIn();
  if (!outcome.session) {
    signOut(outcome.message);
    return;
  }
  signedIn = true;
  document.body.dataset.signed = 'in';
  setRights(outcome.session);
  stream.start();
  top.countNodes();
  disk.watch();
  await router.route();
}

function onAddress() {
  if (hasLink()) {
    start();
  } else if (signedIn) {
    router.route();
  }
}

bindKeys();
place('skip').addEventListener('click', () => main.focus());
stream.addEventListener('state', drawState);
listen({node: top.countNodes, gap: top.countNodes});
signedOut.addEventListener('out', (e) => {
  if (signedIn) {
    signOut(/** @type {CustomEvent<string>} */ (e).detail);
  }
});
window.addEventListener('hashchange', () => {
  document.querySelectorAll('dialog[open]')
      .forEach((dialog) => /** @type {HTMLDialogElement} */ (dialog).close());
  onAddress();
});
start();
