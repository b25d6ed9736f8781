/* Under the banner: that the service's disk is nearly full, and which jobs could go. The page asks
   when it opens and every half minute. The service answers this also where the full disk has
   stopped the store. */
import {fill, h} from '../elements/dom.js';
import {icon} from '../elements/icons.js';
import {get} from '../service/api.js';
import {bytes, plural} from '../text/format.js';

const EVERY_MS = 30000;
const NAMED = 3;

/** @param {Api.Disk} disk */
function sentence(disk) {
  return 'The disk of the service is nearly full: ' + bytes(disk.free_bytes || 0) + ' are free. ' +
      (disk.can_go_bytes ? 'History and checkpoints of jobs that have ended take ' +
                  bytes(disk.can_go_bytes) + ' (--max-disk, --keep-jobs); '
                         : '') +
      (disk.data_bytes ? 'uploaded data sets take ' + bytes(disk.data_bytes) + '; ' : '') +
      'deleting jobs gives all of theirs back' + (disk.jobs.length ? ', first of all ' : '.');
}

/** @param {Api.Disk['jobs']} jobs */
function links(jobs) {
  return jobs.slice(0, NAMED)
      .flatMap((j, i) => [i ? ', ' : '', h('a', {href: '#/jobs/' + j.id, text: j.id.slice(0, 8)}),
                   ' (' + bytes(j.disk_bytes) + ')'])
      .concat(jobs.length > NAMED ? ' and ' + plural(jobs.length - NAMED, 'more', 'more') : '');
}

export class DiskNotice {
  /** @param {Element} place */
  constructor(place) {
    this.node = h('div', {class: 'disk-full', role: 'status', hidden: true});
    place.after(this.node);
    this.timer = 0;
  }

  async watch() {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.watch(), EVERY_MS);
    try {
      this.update(await get('disk'));
    } catch {
      /* the banner says that there is no answer */
    }
  }

  stop() {
    clearTimeout(this.timer);
    this.node.hidden = true;
  }

  /** @param {Api.Disk} disk */
  update(disk) {
    this.node.hidden = !disk.low;
    fill(this.node, icon('warn'), h('span', null, sentence(disk), links(disk.jobs)));
  }
}
