"""The DCGAN tutorial: two networks with an optimizer each, in a loop and a tf.function of its own;
on PyTorch the same by autograd. Noise comes with the data."""
import keras
import numpy as np
from keras import layers

import evenstep

keras.utils.set_random_seed(6)
draw = np.random.RandomState(6)
images, noise = draw.rand(90, 6).astype("float32"), draw.randn(90, 4).astype("float32")
generator = keras.Sequential(
    [keras.Input((4,)), layers.Dense(8), layers.LayerNormalization(), layers.Dense(6)])
discriminator = keras.Sequential(
    [keras.Input((6,)), layers.Dense(8), layers.LeakyReLU(), layers.Dense(1)])
cross_entropy = keras.losses.BinaryCrossentropy(from_logits=True)
generator_optimizer = keras.optimizers.SGD(0.1, momentum=0.5)
discriminator_optimizer = keras.optimizers.SGD(0.05)


def discriminator_loss(real_output, fake_output):
    real_loss = cross_entropy(keras.ops.ones_like(real_output), real_output)
    return real_loss + cross_entropy(keras.ops.zeros_like(fake_output), fake_output)


def generator_loss(fake_output):
    return cross_entropy(keras.ops.ones_like(fake_output), fake_output)


if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

    train_dataset = tf.data.Dataset.from_tensor_slices((images, noise)).batch(32)

    @tf.function
    def train_step(images, noise):
        with tf.GradientTape() as gen_tape, tf.GradientTape() as disc_tape:
            generated = generator(noise, training=True)
            fake_output = discriminator(generated, training=True)
            gen_loss = generator_loss(fake_output)
            disc_loss = discriminator_loss(discriminator(images, training=True), fake_output)
        gradients = gen_tape.gradient(gen_loss, generator.trainable_variables)
        generator_optimizer.apply_gradients(zip(gradients, generator.trainable_variables))
        gradients = disc_tape.gradient(disc_loss, discriminator.trainable_variables)
        discriminator_optimizer.apply_gradients(zip(gradients, discriminator.trainable_variables))
else:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    train_dataset = DataLoader(
        TensorDataset(torch.from_numpy(images), torch.from_numpy(noise)), batch_size=32)

    def gradients_of(loss, model):
        weights = [v.value for v in model.trainable_variables]
        return torch.autograd.grad(loss, weights, retain_graph=True)

    def train_step(images, noise):
        fake_output = discriminator(generator(noise, training=True), training=True)
        disc_loss = discriminator_loss(discriminator(images, training=True), fake_output)
        gen_gradients = gradients_of(generator_loss(fake_output), generator)
        disc_gradients = gradients_of(disc_loss, discriminator)
        with torch.no_grad():
            generator_optimizer.apply(gen_gradients, generator.trainable_variables)
            discriminator_optimizer.apply(disc_gradients, discriminator.trainable_variables)

[generator, discriminator], optimizers, train_dataset = evenstep.prepare(
    [generator, discriminator], [generator_optimizer, discriminator_optimizer], train_dataset)
for epoch in evenstep.epochs(4):
    for image_batch, noise_batch in train_dataset:
        train_step(image_batch, noise_batch)
