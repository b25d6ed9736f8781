/* Uploads a data set: a folder, or the files of one, is sent to the service while it is read from
   the disk, and becomes the job's data. */
import {FaultText} from '../../draft/fields.js';
import {h, say} from '../../elements/dom.js';
import {ApiError, upload} from '../../service/api.js';
import {bytes, plural, sentence} from '../../text/format.js';

import {chooser} from './chooser.js';
import {packed} from './tar.js';

const MOST_BYTES = 2 ** 30;
const HELP = 'idx, npy or CIFAR files, or pictures in a folder for each class; at most ' +
    bytes(MOST_BYTES) + ' and 500,000 files';

const ONE_CLASS = 'All samples are of one class, so there is nothing to learn to tell apart. ' +
    'Pictures of each class belong in a folder of their own.';

/**
 * A name that the service takes.
 * @param {string} text
 */
export function nameFrom(text) {
  return text.trim().replace(/[^A-Za-z0-9._-]+/g, '-').replace(/^[.-]+/, '').slice(0, 64) ||
      'my-data';
}

/** @param {Blob} body */
function tooLarge(body) {
  return body.size > MOST_BYTES &&
      'These files have ' + bytes(body.size) + '; ' + bytes(MOST_BYTES) +
      ' are taken. Put larger ' +
      'data beneath a data root of the service.';
}

export class DataUpload {
  /** @param {(path: string) => Promise<Api.Dataset | undefined>} onDone */
  constructor(onDone) {
    this.onDone = onDone;
    this.bar = h('progress', {hidden: true, max: '1', 'aria-label': 'Upload'});
    this.said = h('span', {class: 'quiet', role: 'status'});
    this.errors = new FaultText();
    this.name = h('input', {
      type: 'text',
      autocomplete: 'off',
      spellcheck: 'false',
      placeholder: 'the folder’s name',
      id: 'upload-name'
    });
    this.node = h('div', {class: 'field wide upload'},
        h('label',
            {for: 'upload-name'
            },
            h('span', {text: 'Your own data: its name'})),
        h('div', {class: 'actions'}, this.name,
            chooser('Upload a folder', {webkitdirectory: true, multiple: true, id: 'data-folder'},
                (chosen) => this.start(chosen)),
            chooser(
                'Upload files', {multiple: true, id: 'data-files'}, (chosen) => this.start(chosen)),
            this.bar, this.said),
        h('p', {class: 'help', text: HELP}), this.errors.node);
  }

  /** @param {File[]} chosen */
  async start(chosen) {
    const folder = chosen[0].webkitRelativePath.split('/')[0];
    const name = nameFrom(this.name.value || folder);
    const body = packed(chosen);
    const refused = tooLarge(body);
    this.errors.show(refused ? [refused] : []);
    if (!refused) {
      await this.send(name, body);
    }
  }

  /**
   * @param {string} name
   * @param {Blob} body
   */
  async send(name, body) {
    this.bar.hidden = false;
    this.bar.value = 0;
    try {
      /** @type {Api.UploadedDataset} */
      const kept = await upload('datasets', {name}, body, (sent) => this.tell(sent, body.size));
      say(this.said,
          'uploaded as ' + kept.path + ': ' + plural(kept.samples, 'sample') + ' in ' +
              plural(kept.files, 'file') + ', SHA-256 ' + kept.digest.slice(0, 12) + '…');
      const found = await this.onDone(kept.path);
      this.errors.show(found?.classes === 1 ? [ONE_CLASS] : []);
    } catch (e) {
      const {message, errors = [], hint} = /** @type {ApiError} */ (e);
      const all = errors.length ? errors.map((x) => x.message) : [message];
      say(this.said, 'not uploaded');
      this.errors.show([...all, hint].filter(Boolean).map(sentence));
    }
    this.bar.hidden = true;
  }

  /**
   * @param {number} sent
   * @param {number} all
   */
  tell(sent, all) {
    this.bar.value = sent / all;
    say(this.said, sent < all ? bytes(sent) + ' of ' + bytes(all) : 'the service reads it …');
  }
}
