/* Light or dark, before the first paint. A classic script: modules run too late and the page would
   flash. The choice (auto, light, dark) is kept in this browser only; `evenstep-theme` is the event
   that charts listen to, because they paint with colours read from the variables. */
(function() {
'use strict';
const dark = window.matchMedia('(prefers-color-scheme: dark)');
function choice() {
  try {
    return localStorage.getItem('evenstep.theme') || 'auto';
  } catch (e) {
    return 'auto';
  }
}
function apply() {
  const wanted = choice();
  document.documentElement.dataset.theme =
      wanted === 'auto' ? (dark.matches ? 'dark' : 'light') : wanted;
  window.dispatchEvent(new Event('evenstep-theme'));
}
window.evenstepTheme = {
  choice: choice,
  set: function(wanted) {
    try {
      localStorage.setItem('evenstep.theme', wanted);
    } catch (e) { /* private windows keep nothing */
    }
    apply();
  },
};
dark.addEventListener('change', apply);
apply();
}());
