/* A script or stylesheet that did not load (the connection broke, the network changed, the service
 * is just restarting): this says so and loads the page again, at most TRIES times by itself until a
 * page was shown. It is a classic script before all others, since it must not depend on what may be
 * missing. The address stays as it is, with a link's code that was not used yet. Events of the
 * window, from the router: "part-missing" where a view did not load, since browsers remember that;
 * "part-shown" where one did. */
'use strict';
{
  const TRIES = 4;
  const FIRST_PAUSE_MS = 1000;
  const KEY = 'evenstep.reloads';
  let missing = false;

  /* How often the page was loaded again since one was last shown. */
  function count() {
    try {
      return Number(sessionStorage.getItem(KEY)) || 0;
    } catch (e) {
      return TRIES; /* without session storage the user decides when to reload */
    }
  }

  /** @param {number} tries */
  function keep(tries) {
    try {
      sessionStorage.setItem(KEY, String(tries));
    } catch (e) { /* see count() */
    }
  }

  /** @param {boolean} again it is loaded again without being asked */
  function say(again) {
    const line = document.createElement('div');
    line.className = 'wrong';
    line.id = 'not-loaded';
    line.textContent =
        'A part of this page did not load.' + (again ? ' It is loaded again in a moment. ' : ' ');
    const button = document.createElement('button');
    button.className = 'btn';
    button.type = 'button';
    button.textContent = 'Try again';
    button.addEventListener('click', () => location.reload());
    line.append(button);
    document.getElementById('banner')?.replaceChildren(line);
  }

  /**
   * Reloads once the service answers. A reload without an answer would end at the browser's own
   * error page.
   * @param {number} pause in ms, doubled each time
   */
  function reloadOnceItAnswers(pause) {
    setTimeout(() => {
      fetch('/', {method: 'HEAD', cache: 'no-store'})
          .then(() => location.reload(), () => reloadOnceItAnswers(2 * pause));
    }, pause);
  }

  function onMissing() {
    const tries = count();
    say(tries < TRIES);
    if (tries < TRIES) {
      keep(tries + 1);
      reloadOnceItAnswers(FIRST_PAUSE_MS * 2 ** tries);
    }
  }

  /* Errors of elements do not bubble, so they are met on their way down. */
  window.addEventListener('error', (event) => {
    const from = event.target;
    missing ||= from instanceof HTMLScriptElement || from instanceof HTMLLinkElement;
  }, true);
  window.addEventListener('load', () => missing && onMissing());
  window.addEventListener('part-missing', onMissing);
  window.addEventListener('part-shown', () => keep(0));
}
