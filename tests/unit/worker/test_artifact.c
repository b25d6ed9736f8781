/* Artifacts, and starting from a file (`init`): its tensors and figures. Messages name each tensor
 * that is missing, extra, misshapen or of another head; a header with false sizes is refused.
 */
#include "checkpoint_fixture.h"

#include "worker/checkpoint/artifact.h"
#include "worker/checkpoint/safetensors.h"

static void an_artifact_has_the_tensors_and_the_figures(void **state)
{
    struct place *p = *state;
    struct safetensors s;
    char path[4200];
    p->state->test_accuracy = 0.9875;
    p->state->test_loss = 0.04;
    OK(artifact_write(p->dir, "model", p->spec, p->state, &err_));
    snprintf(path, sizeof path, "%s/artifacts/model.safetensors", p->dir);
    OK(safetensors_open(&s, path, true, &err_));
    assert_int_equal(s.n, 4); /* no optimizer */
    const struct safetensor *w = safetensors_find(&s, "conv1.weight");
    assert_non_null(w);
    assert_int_equal(w->rank, 4);
    assert_int_equal(w->dim[0], 2);
    assert_int_equal(w->dim[1], 1);
    assert_int_equal(w->dim[2], 3);
    assert_non_null(safetensors_find(&s, "conv1.bias"));
    assert_string_equal(safetensors_meta(&s, "test_accuracy"), "0.9875");
    assert_string_equal(safetensors_meta(&s, "normalize"), "unit");
    assert_string_equal(safetensors_meta(&s, "step"), "1234");
    assert_non_null(strstr(safetensors_meta(&s, "network"), "\"conv2d\""));
    safetensors_close(&s);
}

static void init_takes_artifacts_and_checkpoints(void **state)
{
    struct place *p = *state;
    char path[4200];
    float *params = calloc(p->state->n_params, sizeof(float)), none;
    OK(artifact_write(p->dir, "best", p->spec, p->state, &err_));
    snprintf(path, sizeof path, "%s/artifacts/best.safetensors", p->dir);
    OK(artifact_read(path, &p->spec->network, NULL, params, &none, &err_));
    assert_memory_equal(params, p->params, p->state->n_params * sizeof(float));
    memset(params, 0, p->state->n_params * sizeof(float));
    write_at(p, 10, 9, path);
    OK(artifact_read(path, &p->spec->network, NULL, params, &none, &err_));
    assert_memory_equal(params, p->params, p->state->n_params * sizeof(float));
    free(params);
}

static void missing_extra_and_misshapen_tensors_are_named(void **state)
{
    struct place *p = *state;
    const struct network *net = &p->spec->network;
    char path[4200];
    float *params = calloc(p->state->n_params, sizeof(float)), none;
    struct safetensor list[5] = {0};
    json_t *meta = json_object();
    for (int i = 0; i < net->n_tensors; i++) {
        const struct tensor *t = &net->tensors[i];
        snprintf(list[i].name, sizeof list[i].name, "%s", t->name);
        list[i].rank = t->rank;
        memcpy(list[i].dim, t->dim, sizeof t->dim);
        list[i].count = t->count;
        list[i].data = p->params + t->first;
    }
    snprintf(path, sizeof path, "%s/other.safetensors", p->dir);
    OK(safetensors_write(path, list, 3, meta, &err_));
    FAILS(artifact_read(path, net, NULL, params, &none, &err_), ERR_DATA,
          "tensor 'dense1.bias' is missing");
    list[4] = list[3];
    snprintf(list[4].name, sizeof list[4].name, "dense9.bias");
    OK(safetensors_write(path, list, 5, meta, &err_));
    FAILS(artifact_read(path, net, NULL, params, &none, &err_), ERR_DATA,
          "tensor 'dense9.bias' is not one of the network's");
    snprintf(list[4].name, sizeof list[4].name, "bn1.num_batches_tracked"); /* PyTorch's own */
    OK(safetensors_write(path, list, 5, meta, &err_));
    OK(artifact_read(path, net, NULL, params, &none, &err_));
    int64_t swap = list[2].dim[0];
    list[2].dim[0] = list[2].dim[1];
    list[2].dim[1] = swap;
    OK(safetensors_write(path, list, 4, meta, &err_));
    FAILS(artifact_read(path, net, NULL, params, &none, &err_), ERR_DATA,
          "tensor 'dense1.weight' has the shape [");
    struct jsonx_problems all = {0}; /* a check names each, reading the first */
    snprintf(list[0].name, sizeof list[0].name, "conv9.weight");
    OK(safetensors_write(path, list, 4, meta, &err_));
    artifact_check(path, net, NULL, "/init", &all);
    assert_int_equal(all.count, 3);
    assert_string_equal(all.items[0].message, "tensor 'conv1.weight' is missing");
    assert_non_null(strstr(all.items[1].message, "tensor 'dense1.weight' has the shape ["));
    assert_string_equal(all.items[2].message, "tensor 'conv9.weight' is not one of the network's");
    assert_string_equal(all.items[2].pointer, "/init");
    jsonx_problems_release(&all);
    json_decref(meta);
    free(params);
}

/* ---- another head on a trained body ---------------------------------------------------------- */

static struct jobspec *with_head(int units, const char *init)
{
    char text[1000];
    snprintf(
        text, sizeof text,
        "{\"model\": {\"input\": [4, 4, 1], \"layers\": [{\"type\": \"conv2d\", \"filters\": 2, "
        "\"kernel\": 3}, {\"type\": \"relu\"},"
        "{\"type\": \"flatten\"}, {\"type\": \"dense\", \"units\": %d}]}, "
        "\"data\": {\"format\": \"npy\", \"path\": \"small\"},"
        "\"batching\": {\"global_batch\": 32}, \"init\": %s}",
        units, init);
    return make_spec(text);
}

static void another_head_is_taken_when_it_is_asked_for(void **state)
{
    struct place *p = *state;
    char path[4200];
    float none;
    OK(artifact_write(p->dir, "model", p->spec, p->state, &err_));
    snprintf(path, sizeof path, "%s/artifacts/model.safetensors", p->dir);
    struct jobspec *spec = with_head(5, "{\"path\": \"x\", \"allow\": [\"dense1.*\"]}");
    const struct network *net = &spec->network;
    float *params = malloc(net->n_params * sizeof(float));
    for (size_t i = 0; i < net->n_params; i++) {
        params[i] = -7;
    }
    assert_int_equal(artifact_read(path, net, &spec->init_how, params, &none, &err_),
                     2); /* weight and bias */
    size_t body = net->tensors[2].first;
    assert_memory_equal(params, p->params, body * sizeof(float));
    for (size_t i = body; i < net->n_params; i++) {
        assert_true(params[i] == -7);
    }
    FAILS(artifact_read(path, net, NULL, params, &none, &err_), ERR_DATA,
          "tensor 'dense1.weight' has the shape [3, 8], the network needs [5, 8]");
    assert_non_null(strstr(err_.hint, "\"allow\": [\"dense1.weight\"]"));
    drop_spec(spec);
    spec = with_head(5, "{\"path\": \"x\", \"allow\": [\"dense1.weight\"]}");
    FAILS(artifact_read(path, &spec->network, &spec->init_how, params, &none, &err_), ERR_DATA,
          "tensor 'dense1.bias' has the shape");
    drop_spec(spec);
    spec = with_head(5, "{\"path\": \"x\", \"allow\": [\"dense1.*\", \"fc.*\"]}");
    FAILS(artifact_read(path, &spec->network, &spec->init_how, params, &none, &err_), ERR_INVALID,
          "'allow' names 'fc.*', but neither");
    drop_spec(spec);
    spec = with_head(3, "{\"path\": \"x\", \"allow\": [\"dense1.*\"]}");
    assert_int_equal(artifact_read(path, &spec->network, &spec->init_how, params, &none, &err_),
                     0); /* it fits after all */
    assert_memory_equal(params, p->params, p->state->n_params * sizeof(float));
    drop_spec(spec);
    free(params);
}

static void tensors_that_are_left_over_or_missing_can_be_allowed_too(void **state)
{
    struct place *p = *state;
    const struct network *net = &p->spec->network;
    struct jobspec *spec = with_head(3, "{\"path\": \"x\", \"allow\": [\"*.bias\", \"old.*\"]}");
    struct safetensor list[3] = {0};
    float *params = calloc(p->state->n_params, sizeof(float)), none;
    char path[4200];
    json_t *meta = json_object();
    snprintf(path, sizeof path, "%s/other.safetensors", p->dir);
    for (int i = 0; i < 3; i++) {
        const struct tensor *t = &net->tensors[i == 1 ? 2 : 0];
        snprintf(list[i].name, sizeof list[i].name, "%s", i == 2 ? "old.weight" : t->name);
        list[i].rank = t->rank;
        memcpy(list[i].dim, t->dim, sizeof t->dim);
        list[i].count = t->count;
        list[i].data = p->params + t->first;
    }
    OK(safetensors_write(path, list, 3, meta, &err_));
    assert_int_equal(artifact_read(path, net, &spec->init_how, params, &none, &err_),
                     3); /* two biases and what was left over */
    assert_memory_equal(params + net->tensors[2].first, p->params + net->tensors[2].first,
                        net->tensors[2].count * sizeof(float));
    json_decref(meta);
    free(params);
    drop_spec(spec);
}

static void headers_that_lie_are_refused(void **state)
{
    struct place *p = *state;
    struct safetensors s;
    char path[4200];
    static const char *const heads[] = {
        /* beyond the file; not the shape's size; negative; overflows; ends before it begins */
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387905,4],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}",
        "{\"a\":{\"dtype\":\"F32\"}}",
        "[]",
        "{",
        "{\"a\":1}",
    };
    snprintf(path, sizeof path, "%s/lie", p->dir);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        char bytes[256] = {0};
        uint64_t n = strlen(heads[i]);
        memcpy(bytes, &n, 8);
        memcpy(bytes + 8, heads[i], n);
        put_file(p->dir, "lie", bytes, 8 + n + 8);
        err_clear(&err_);
        if (safetensors_open(&s, path, false, &err_) >= 0) {
            fail_msg("taken: %s", heads[i]);
        }
    }
    put_file(p->dir, "lie", "\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10);
    FAILS(safetensors_open(&s, path, false, &err_), ERR_DATA, "its header should have");
    put_file(p->dir, "lie", "", 0);
    FAILS(safetensors_open(&s, path, false, &err_), ERR_DATA, "it has only 0 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_(an_artifact_has_the_tensors_and_the_figures),
        TEST_(init_takes_artifacts_and_checkpoints),
        TEST_(missing_extra_and_misshapen_tensors_are_named),
        TEST_(another_head_is_taken_when_it_is_asked_for),
        TEST_(tensors_that_are_left_over_or_missing_can_be_allowed_too),
        TEST_(headers_that_lie_are_refused),
    };
    return cmocka_run_group_tests_name("artifacts", tests, NULL, NULL);
}
