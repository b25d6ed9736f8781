/* A small network as a starting point, for a data set of this shape. Pure. */

/* The size of pictures if nothing else is given. */
const PICTURE = [32, 32, 3];
/* Files of pictures begin no larger: of photographs as a camera writes them the first network would
   have more parameters than a node has memory. */
const LARGEST = 64;
/* Below this side a convolution's picture is not halved any more. */
const HALVED_FROM = 8;

/* Steps of a first epoch, at least, where the global batch allows; below the least it does not. */
const FIRST_STEPS = 10;
const LEAST_BATCH = 16;
const USUAL_BATCH = 256;

/**
 * The global batch of a first job on this data set: a power of two that makes some steps an epoch,
 * at most `usual`. One above the samples would never be full.
 * @param {{samples: number}} dataset
 * @param {number} [usual]
 */
export function firstBatch({samples}, usual = USUAL_BATCH) {
  const fits = 2 ** Math.floor(Math.log2(Math.max(1, samples / FIRST_STEPS)));
  return Math.min(usual, samples, Math.max(fits, LEAST_BATCH));
}

/**
 * The learning rate depends on the global batch: with fewer samples a gradient is noisier, and a
 * first job with the same rate learned nothing. Adam's steps have a length of their own.
 * @param {Api.Spec['optimizer']} optimizer
 * @param {number} batch
 * @param {number} [usual] the batch that the rate was meant for
 * @returns {Api.Spec['optimizer']}
 */
export function firstOptimizer(optimizer, batch, usual = USUAL_BATCH) {
  const rate = optimizer?.learning_rate;
  return optimizer && rate && optimizer.type === 'sgd' && batch < usual
      ? {...optimizer, learning_rate: Number((rate * batch / usual).toPrecision(2))}
      : optimizer;
}

/**
 * @param {number[]} shape height, width and channels
 */
const resized = ([height, width, ...channels]) => Math.max(height, width) <= LARGEST
    ? [height, width, ...channels]
    : [LARGEST, LARGEST, ...channels];

const relu = {
  type: 'relu'
};

/**
 * @param {number} filters
 * @param {boolean} halved
 * @returns {Api.Layer[]}
 */
const block = (filters, halved) => [{type: 'conv2d', filters, kernel: 3, padding: 1}, relu,
    ...(halved ? [{type: 'max_pool', size: 2}] : [])];

/**
 * Two convolutions for pictures, a hidden layer for numbers.
 * @param {{shape?: number[], classes?: number | null, format: string}} dataset
 * @returns {Api.Network}
 */
export function firstNetwork({shape, classes, format}) {
  const given = shape?.length ? shape : [];
  const picture = format === 'images' && !given.every((n) => n > 0);
  const whole = picture || !given.length ? PICTURE : given;
  const usual = format === 'images' ? resized(whole) : whole;
  const input = usual.length === 2 ? [...usual, 1] : usual;
  const side = input.length === 3 ? Math.min(input[0], input[1]) : 0;
  /** @type {Api.Layer[]} */
  const before = side >= 3 ? [...block(16, side >= HALVED_FROM),
    ...block(32, side >= 2 * HALVED_FROM), {type: 'flatten'}]
                           : input.length === 3 ? [{type: 'flatten'}] : [];
  const layers =
      [...before, {type: 'dense', units: 64}, relu, {type: 'dense', units: classes || 1}];
  return classes ? {input, layers} : {input, layers, loss: 'mse'};
}
