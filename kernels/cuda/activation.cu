/* Activations that never become a part of the layer before them: leaky relu, tanh, sigmoid; twin of
 * cpu/activation.c. Their gradient is computed from the output, so nothing else is kept. All
 * arrays: [batch][count].
 */
#include "kernels/cuda/elements.h"

/* Two functors for each layer: the output from its input x; the gradient of its input from the
 * gradient of its output and its output y. */
struct f_leaky {
    static constexpr const char *name = "leaky";
    float slope;
    DEVICE_FN_MEMBER float of(float x, float) const
    {
        return x > 0 ? x : slope * x;
    }
};
struct f_leaky_gradient {
    static constexpr const char *name = "leaky_gradient";
    float slope;
    DEVICE_FN_MEMBER float of(float g, float y) const
    {
        return g * (y > 0 ? 1.0f : slope);
    }
};
struct f_tanh {
    static constexpr const char *name = "tanh";
    float slope;
    DEVICE_FN_MEMBER float of(float x, float) const
    {
        return tanhf(x);
    }
};
struct f_tanh_gradient {
    static constexpr const char *name = "tanh_gradient";
    float slope;
    DEVICE_FN_MEMBER float of(float g, float y) const
    {
        return g * (1.0f - y * y);
    }
};
struct f_sigmoid {
    static constexpr const char *name = "sigmoid";
    float slope;
    DEVICE_FN_MEMBER float of(float x, float) const
    {
        return 1.0f / (1.0f + expf(-x));
    }
};
struct f_sigmoid_gradient {
    static constexpr const char *name = "sigmoid_gradient";
    float slope;
    DEVICE_FN_MEMBER float of(float g, float y) const
    {
        return g * (y * (1.0f - y));
    }
};

template <typename F>
static int forward(struct cuda_program *p, struct cuda_step *s, bool training, struct err *e)
{
    size_t n = (size_t)p->head.batch * s->out->count;
    CUDA_KIND(p, T,
              return elements_each(p->dev, p->dev->build, F{(float)s->layer->rate},
                                   (T *)s->out->data, (const T *)s->in[0]->data, (const T *)NULL, n,
                                   "apply an activation", e));
}

template <typename F>
static int backward(struct cuda_program *p, struct cuda_step *s, struct err *e)
{
    size_t n = (size_t)p->head.batch * s->out->count;
    CUDA_KIND(p, T,
              return elements_each(p->dev, p->dev->build, F{(float)s->layer->rate},
                                   (T *)*s->in_grad[0], (const T *)s->out->grad,
                                   (const T *)s->out->data, n, "run the gradient of an activation",
                                   e));
}

#define ACTIVATION(kind, title)                                       \
    const struct cuda_op cuda_##kind = {.name = title,                \
                                        .keeps_shape = true,          \
                                        .forward = forward<f_##kind>, \
                                        .backward = backward<f_##kind##_gradient>};

ACTIVATION(leaky, "leaky relu")
ACTIVATION(tanh, "tanh")
ACTIVATION(sigmoid, "sigmoid")
