/* oneDNN primitives (see prim.h). The caller provides scratch memory (scratchpad mode), one piece
 * per program: the library's own would be allocated while training, and shared with programs that
 * another thread prepares.
 */
#include "kernels/cpu/cpu.h"

#include <string.h>

int prim_check(dnnl_status_t status, const char *what, struct err *e)
{
    static const char *const reasons[] = {"success",       "out of memory", "invalid arguments",
                                          "unimplemented", "iterator ends", "runtime error",
                                          "not required"};
    if (status == dnnl_success) {
        return 0;
    }
    bool known = (size_t)status < sizeof(reasons) / sizeof(*reasons);
    return err_set(e, status == dnnl_out_of_memory ? ERR_MEMORY : ERR_DEVICE,
                   "oneDNN cannot %s: %s", what, known ? reasons[status] : "unknown status");
}

const dnnl_memory_desc_t *prim_md(const_dnnl_primitive_desc_t pd, dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(pd, what, 0);
}

dnnl_memory_desc_t prim_value_md(const struct cpu_program *p, const struct shape *shape)
{
    dnnl_memory_desc_t md;
    int batch = p->samples;
    dnnl_dims_t image = {batch, shape->dim[2], shape->dim[0], shape->dim[1]},
                vector = {batch, shape->dim[0]};
    bool is_image = shape->rank == 3;
    dnnl_status_t status = dnnl_memory_desc_init_by_tag(
        &md, is_image ? 4 : 2, is_image ? image : vector, p->bf16 ? dnnl_bf16 : dnnl_f32,
        is_image ? dnnl_nhwc : dnnl_nc);
    BUG_ON(status != dnnl_success);
    return md;
}

static int make_attr(bool relu, dnnl_primitive_attr_t *attr, struct err *e)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(attr);
    if (status != dnnl_success) {
        *attr = NULL;
        return prim_check(status, "create attributes", e);
    }
    status = dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success && relu) {
        status = dnnl_post_ops_create(&ops);
        if (status == dnnl_success) {
            status = dnnl_post_ops_append_eltwise(ops, 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f);
        }
        if (status == dnnl_success) {
            status = dnnl_primitive_attr_set_post_ops(*attr, ops);
        }
        dnnl_post_ops_destroy(ops);
    }
    return prim_check(status, "set attributes", e);
}

static int finish(struct cpu_program *p, struct prim *prim, const_dnnl_primitive_desc_t pd,
                  struct err *e)
{
    int rc = prim_check(dnnl_primitive_create(&prim->handle, pd), "create a primitive", e);
    if (rc < 0) {
        prim->handle = NULL;
        return rc;
    }
    const dnnl_memory_desc_t *md = prim_md(pd, dnnl_query_scratchpad_md);
    size_t bytes = md ? dnnl_memory_desc_get_size(md) : 0;
    if (bytes == 0) {
        return 0;
    }
    cpu_scratch(p, bytes);
    return prim_variable(p, prim, DNNL_ARG_SCRATCHPAD, md, &p->scratch, e);
}

int prim_new(struct cpu_program *p, struct prim *prim, const_dnnl_op_desc_t op, bool relu,
             const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *pd, struct err *e)
{
    dnnl_primitive_attr_t attr = NULL;
    *pd = NULL;
    int rc = make_attr(relu, &attr, e);
    if (rc == 0) {
        rc = prim_check(dnnl_primitive_desc_create(pd, op, attr, p->dev->engine, hint),
                        "find a kernel", e);
    }
    if (rc == 0) {
        rc = finish(p, prim, *pd, e);
    }
    if (attr) {
        dnnl_primitive_attr_destroy(attr);
    }
    return rc;
}

static int bind(struct cpu_program *p, struct prim *prim, int arg, const dnnl_memory_desc_t *md,
                void *data, void **variable, struct err *e)
{
    BUG_ON(prim->n_args >= PRIM_ARGS);
    dnnl_memory_t memory;
    int rc =
        prim_check(dnnl_memory_create(&memory, md, p->dev->engine, data), "describe memory", e);
    if (rc < 0) {
        return rc;
    }
    int i = prim->n_args++;
    prim->args[i].arg = arg;
    prim->args[i].memory = memory;
    prim->variable[i] = variable;
    return 0;
}

int prim_fixed(struct cpu_program *p, struct prim *prim, int arg, const dnnl_memory_desc_t *md,
               void *data, struct err *e)
{
    const struct dev_replica *r = p->replica;
    int i = prim->n_args, rc = bind(p, prim, arg, md, data, NULL, e);
    for (int b = 0; rc == 0 && b < DEV_BLOCKS; b++) {
        float *at = data;
        if (r->count[b] > 0 && at >= r->host[b] && at < r->host[b] + r->count[b]) {
            prim->block[i] = b + 1;
            prim->place[i] = (size_t)(at - r->host[b]);
        }
    }
    return rc;
}

int prim_variable(struct cpu_program *p, struct prim *prim, int arg, const dnnl_memory_desc_t *md,
                  void **data, struct err *e)
{
    return bind(p, prim, arg, md, DNNL_MEMORY_NONE, data, e);
}

int prim_run(struct cpu_program *p, struct prim *prim, struct err *e)
{
    if (!prim->handle) {
        return 0;
    }
    for (int i = 0; i < prim->n_args; i++) {
        if (prim->variable[i] || prim->block[i]) {
            void *at = prim->variable[i] ? *prim->variable[i]
                                         : p->replica->host[prim->block[i] - 1] + prim->place[i];
            dnnl_status_t status = dnnl_memory_set_data_handle(prim->args[i].memory, at);
            if (status != dnnl_success) {
                return prim_check(status, "bind memory", e);
            }
        }
    }
    return prim_check(dnnl_primitive_execute(prim->handle, p->stream, prim->n_args, prim->args),
                      "run a primitive", e);
}

void prim_release(struct prim *prim)
{
    for (int i = 0; i < prim->n_args; i++) {
        dnnl_memory_destroy(prim->args[i].memory);
    }
    if (prim->handle) {
        dnnl_primitive_destroy(prim->handle);
    }
    memset(prim, 0, sizeof(*prim));
}

int prim_tensor_new(struct cpu_program *p, struct prim_tensor *t, const dnnl_memory_desc_t *flat_md,
                    float *flat, const dnnl_memory_desc_t *md, bool to_flat, struct err *e)
{
    if (dnnl_memory_desc_equal(flat_md, md)) {
        t->data = flat;
        return 0;
    }
    t->data = cpu_alloc(p, (dnnl_memory_desc_get_size(md) + 3) / 4, e);
    if (!t->data) {
        return -ERR_MEMORY;
    }
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    int rc = make_attr(false, &attr, e);
    if (rc == 0) {
        dnnl_status_t status =
            dnnl_reorder_primitive_desc_create(&pd, to_flat ? md : flat_md, p->dev->engine,
                                               to_flat ? flat_md : md, p->dev->engine, attr);
        rc = prim_check(status, "find a copy between two formats", e);
    }
    if (rc == 0) {
        rc = finish(p, &t->copy, pd, e);
    }
    if (rc == 0) {
        rc = prim_fixed(p, &t->copy, to_flat ? DNNL_ARG_TO : DNNL_ARG_FROM, flat_md, flat, e);
    }
    if (rc == 0) {
        rc = prim_fixed(p, &t->copy, to_flat ? DNNL_ARG_FROM : DNNL_ARG_TO, md, t->data, e);
    }
    if (pd) {
        dnnl_primitive_desc_destroy(pd);
    }
    if (attr) {
        dnnl_primitive_attr_destroy(attr);
    }
    return rc;
}

void prim_tensor_release(struct prim_tensor *t)
{
    prim_release(&t->copy);
    t->data = NULL;
}
