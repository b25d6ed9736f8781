"""TensorFlow's own modules as the model of a loop of the user's own: tf.Module, whose weights are
tf.Variables, in place of a keras.Model."""

import sys

import keras


def is_module(thing):
    """Whether it is a tf.Module and no Keras model."""
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None or isinstance(thing, (keras.Model, keras.optimizers.Optimizer)):
        return False
    return isinstance(thing, tensorflow.Module)


_paths = {}  # of the variables of modules, by id: "layers/0/w"


def path_of(variable):
    """A variable's name for the rank: Keras' path, or where it is in its tf.Module."""
    return _paths.get(id(variable)) or variable.path


class Modules:
    """One module or several, as far as a run asks a keras.Model."""

    built = True

    def __init__(self, modules):
        self.modules = modules
        variable = sys.modules["tensorflow"].Variable
        for i, module in enumerate(modules):
            first = [str(i)] if len(modules) > 1 else []
            for path, v in module._flatten(predicate=lambda v: isinstance(v, variable),
                                           with_path=True):
                _paths.setdefault(id(v), "/".join([*first, *map(str, path)]))

    @property
    def variables(self):
        return _once(v for module in self.modules for v in module.variables)

    @property
    def trainable_variables(self):
        return _once(v for module in self.modules for v in module.trainable_variables)

    @property
    def non_trainable_variables(self):
        return [v for v in self.variables if not v.trainable]

    def _flatten_layers(self):
        """The Keras layers in the modules: a batch norm's statistics count as in a Keras model."""
        found = [m for module in self.modules for m in (module, *module.submodules)]
        return _once(m for m in found if isinstance(m, keras.layers.Layer))


def _once(things):
    return list({id(thing): thing for thing in things}.values())
