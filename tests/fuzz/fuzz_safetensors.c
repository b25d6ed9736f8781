/* safetensors files: as an artifact for `init`, strictly and with everything allowed, and as a
 * checkpoint. The checksum and the network's hash that a file carries are made right first, or
 * nothing behind them would ever be reached. */
#include "tests/fuzz/fuzz.h"

#include <openssl/sha.h>

#include "common/text/hex.h"
#include "common/log.h"
#include "worker/checkpoint/artifact.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/safetensors.h"

static const char job[] =
    "{\"name\": \"t\", \"model\": {\"input\": [4, 4, 1], \"layers\": [{\"type\": \"conv2d\", "
    "\"filters\": 2, \"kernel\": 3}, {\"type\": \"batch_norm\"},"
    "{\"type\": \"flatten\"}, {\"type\": \"dense\", \"units\": 3}]}, "
    "\"data\": {\"format\": \"npy\", \"path\": \"small\"}, \"optimizer\": {\"type\": \"sgd\","
    "\"learning_rate\": 0.1, \"momentum\": 0.9}, \"strategy\": {\"type\": \"sync\"}, "
    "\"batching\": {\"global_batch\": 32, \"policy\": \"equal\"},"
    "\"workers\": 2, \"epochs\": 2, \"seed\": 5}";

static struct jobspec *the_job(void)
{
    static struct jobspec spec;
    if (!spec.json) {
        struct err e = {0};
        struct jsonx_problems problems = {0};
        json_t *j = jsonx_parse(job, sizeof job - 1, &e);
        BUG_ON(!j || jobspec_parse(&spec, j, &problems) < 0);
        json_decref(j);
        log_set_level(LOG_ERROR);
    }
    return &spec;
}

/* Where the text after a key begins, if it has so many bytes. */
static uint8_t *find_text(uint8_t *file, size_t size, const char *key, size_t bytes)
{
    uint8_t *at = memmem(file, size, key, strlen(key));
    return at && (size_t)(file + size - at) > strlen(key) + bytes ? at + strlen(key) : NULL;
}

static void make_sums_right(uint8_t *file, size_t size)
{
    char hash[17];
    uint8_t sum[SHA256_DIGEST_LENGTH], *at = find_text(file, size, "\\\"network\\\":\\\"", 16);
    if (at) {
        network_hash(&the_job()->network, hash);
        memcpy(at, hash, 16);
    }
    if (!(at = find_text(file, size, "\"checksum\":\"", 64))) {
        return;
    }
    memset(at, '0', 64);
    SHA256(file, size, sum);
    char hex[65];
    hex_of(hex, sum, SHA256_DIGEST_LENGTH);
    memcpy(at, hex, 64);
}

/* Every byte that a tensor says is its own. */
static void read_tensors(const char *path)
{
    struct err e = {0};
    struct safetensors s;
    int rc = safetensors_open(&s, path, false, &e);
    fuzz_error(rc, &e);
    for (int i = 0; rc >= 0 && i < s.n; i++) {
        const uint8_t *p = s.tensors[i].data, *map = s.map;
        size_t bytes = s.tensors[i].count * sizeof(float);
        BUG_ON(p < map || p > map + s.map_bytes || bytes > (size_t)(map + s.map_bytes - p));
        fuzz_read(p, bytes);
    }
    if (rc >= 0) {
        safetensors_close(&s);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct init_spec all = {.n_allow = 1, .allow = {"*"}};
    static struct checkpoint c;
    static char path[256];
    struct err e = {0};
    struct jobspec *spec = the_job();
    float params[256], stats[64];
    uint8_t *file = malloc(size + 1);
    BUG_ON(!file || spec->network.n_params > 256 || spec->network.n_stat_floats > 64);
    memcpy(file, data, size);
    make_sums_right(file, size);
    fuzz_file("step-000000000001.safetensors", file, size);
    snprintf(path, sizeof path, "%s/step-000000000001.safetensors", fuzz_folder());
    read_tensors(path);
    fuzz_error(artifact_read(path, &spec->network, NULL, params, stats, &e), &e);
    err_clear(&e);
    fuzz_error(artifact_read(path, &spec->network, &all, params, stats, &e), &e);
    err_clear(&e);
    memset(&c, 0, sizeof c);
    int rc = checkpoint_open(path, spec, &c, &e);
    fuzz_error(rc, &e);
    if (rc >= 0) {
        const struct run_state *state = &c.state;
        BUG_ON(state->n_out < 0 || state->n_out > RUN_SLICES || state->version < 0 ||
               state->applied_samples < 0);
        BUG_ON(state->cursor.samples < 1 || state->cursor.position < 0 ||
               state->cursor.position > state->cursor.samples);
        for (int i = 0; i < state->n_out;
             i++) { /* samples that are there: their indices go straight into the data set */
            const struct slice *one = &state->out[i];
            BUG_ON(one->epoch < 0 || one->start < 0 || one->count < 1 ||
                   one->start > state->cursor.samples - one->count);
        }
        checkpoint_release(&c);
    }
    free(file);
    return 0;
}
