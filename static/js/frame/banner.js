/* The banner under the top bar: since when the service does not answer, and for a while that it is
   back. */
import {fill, h, say} from '../elements/dom.js';
import {icon} from '../elements/icons.js';
import {button} from '../elements/widgets.js';
import {stream} from '../service/events.js';
import {clock, duration} from '../text/format.js';

const BACK_MS = 6000;

function awayText() {
  const next = Math.max(0, Math.ceil((stream.nextTry - Date.now()) / 1000));
  return 'No answer from the service since ' + clock(stream.since, true) +
      '. Training goes on; trying again' + (next ? ' in ' + next + ' s.' : ' now.');
}

function backText() {
  return 'Back since ' + clock(new Date(), true) + ', after ' + duration(stream.wasAwayFor) +
      '. What came meanwhile was read again.';
}

export class Banner {
  /**
   * @param {Element} place
   * @param {() => void} onBack
   */
  constructor(place, onBack) {
    this.place = place;
    this.onBack = onBack;
    this.text = h('span');
    this.away = h('div', {class: 'away'}, icon('warn'), this.text,
        button('Try now', () => stream.tryNow(), {class: 'btn small'}));
    this.timer = 0;
  }

  /** @param {boolean} signedIn */
  draw(signedIn) {
    clearTimeout(this.timer);
    if (stream.state === 'away' && signedIn) {
      say(this.text, awayText());
      if (!this.away.isConnected) {
        fill(this.place, this.away);
      }
      this.timer = window.setTimeout(() => this.draw(signedIn), 1000);
    } else if (this.away.isConnected) {
      fill(this.place, h('div', {class: 'back'}, icon('check'), h('span', {text: backText()})));
      this.timer = window.setTimeout(() => this.clear(), BACK_MS);
      this.onBack();
    }
  }

  clear() {
    fill(this.place);
  }
}
