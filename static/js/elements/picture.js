/* A sample's small picture, as the API gives it: bytes as base64, grey or colour. */
import {h} from './dom.js';

/**
 * Four bytes of a pixel for each of the picture's.
 * @param {Api.ScoredPicture} picture
 */
export function pixels(picture) {
  const bytes = Uint8Array.from(atob(picture.values), (c) => c.charCodeAt(0));
  const out = new Uint8ClampedArray(picture.height * picture.width * 4).fill(255);
  for (let i = 0; i < picture.height * picture.width; i++) {
    for (let c = 0; c < 3; c++) {
      out[4 * i + c] = bytes[i * picture.channels + (picture.channels === 3 ? c : 0)];
    }
  }
  return out;
}

/**
 * @param {Api.ScoredPicture} picture
 * @param {string} text what it shows, read aloud
 */
export function draw(picture, text) {
  const {height, width} = picture;
  const canvas = h('canvas', {height, width, role: 'img', 'aria-label': text});
  canvas.getContext('2d')?.putImageData(new ImageData(pixels(picture), width, height), 0, 0);
  return canvas;
}
