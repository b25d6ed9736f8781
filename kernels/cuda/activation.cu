/* Activations that are never a part of the layer before them: leaky relu, tanh, sigmoid; twin of cpu/activation.c. Their gradient is worked
 * out from the output, so nothing is kept. All arrays: [batch][count].
 */
#include "kernels/cuda/cuda.h"

struct f_leaky {
    DEVICE_FN_MEMBER static float of(float x, float slope)
    {
        return x > 0 ? x : slope * x;
    }
    DEVICE_FN_MEMBER static float gradient(float y, float slope)
    {
        return y > 0 ? 1.0f : slope;
    }
};
struct f_tanh {
    DEVICE_FN_MEMBER static float of(float x, float slope)
    {
        return tanhf(x);
    }
    DEVICE_FN_MEMBER static float gradient(float y, float slope)
    {
        return 1.0f - y * y;
    }
};
struct f_sigmoid {
    DEVICE_FN_MEMBER static float of(float x, float slope)
    {
        return 1.0f / (1.0f + expf(-x));
    }
    DEVICE_FN_MEMBER static float gradient(float y, float slope)
    {
        return y * (1.0f - y);
    }
};

template <typename F, typename T> KERNEL apply(T *y, const T *x, float slope, size_t n)
{
    for (size_t i = port_index(); i < n; i += port_stride()) {
        y[i] = port_from<T>(F::of(port_float(x[i]), slope));
    }
}

template <typename F, typename T> KERNEL apply_gradient(T *dx, const T *dy, const T *y, float slope, size_t n)
{
    for (size_t i = port_index(); i < n; i += port_stride()) {
        dx[i] = port_from<T>(port_float(dy[i]) * F::gradient(port_float(y[i]), slope));
    }
}

template <typename F> static int forward(struct cuda_program *p, struct cuda_step *s, bool training, struct err *e)
{
    size_t n = (size_t)p->head.batch * s->out->count;
    CUDA_KIND(p, T,
              return cuda_check(LAUNCH((apply<F, T>), cuda_blocks(p->dev, n), 2 * n * sizeof(T), p->dev->build, (T *)s->out->data,
                                       (const T *)s->in[0]->data, (float)s->layer->rate, n),
                                "apply an activation", e));
}

template <typename F> static int backward(struct cuda_program *p, struct cuda_step *s, struct err *e)
{
    size_t n = (size_t)p->head.batch * s->out->count;
    CUDA_KIND(p, T,
              return cuda_check(LAUNCH((apply_gradient<F, T>), cuda_blocks(p->dev, n), 3 * n * sizeof(T), p->dev->build,
                                       (T *)*s->in_grad[0], (const T *)s->out->grad, (const T *)s->out->data, (float)s->layer->rate, n),
                                "run the gradient of an activation", e));
}

#define ACTIVATION(kind, title) \
    const struct cuda_op cuda_##kind = {.name = title, .keeps_shape = true, .forward = forward<f_##kind>, .backward = backward<f_##kind>};

ACTIVATION(leaky, "leaky relu")
ACTIVATION(tanh, "tanh")
ACTIVATION(sigmoid, "sigmoid")
