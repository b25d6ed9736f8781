"""Keras' MNIST example, made distributed by two lines (marked), on TensorFlow or PyTorch
(KERAS_BACKEND).

    python3 keras_mnist.py                                 alone
    evenstep submit JOB.json     on a cluster (docs/own-program-run.md has the job)
"""
import argparse

import keras
from keras import layers

import samples
import evenstep.keras  # 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--samples", type=int, default=60000)
    args = parser.parse_args()
    keras.utils.set_random_seed(1)

    x, y = samples.mnist("train")
    test_x, test_y = samples.mnist("test")
    x, y = x.transpose(0, 2, 3, 1)[:args.samples], y[:args.samples]
    test_x = test_x.transpose(0, 2, 3, 1)
    model = keras.Sequential([
        keras.Input((28, 28, 1)),
        layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(2),
        layers.Conv2D(64, 3, activation="relu"), layers.MaxPooling2D(2),
        layers.Flatten(), layers.Dropout(0.5), layers.Dense(10, activation="softmax"),
    ])
    model = evenstep.keras.prepare(model)  # 2
    model.compile(loss="sparse_categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
    model.fit(x, y, batch_size=args.batch_size, epochs=args.epochs, verbose=2,
              validation_data=(test_x, test_y))


if __name__ == "__main__":
    main()
