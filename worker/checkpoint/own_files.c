/* See own_files.h. */
#include "worker/checkpoint/own_files.h"

#include <dirent.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/text/hex.h"
#include "common/process/proc.h"

enum { PATH_BYTES = 4096, NAME_BYTES = 100, SUM_TEXT = 2 * SHA256_DIGEST_LENGTH + 1 };

static void sum_of(const struct own_state *s, char out[SUM_TEXT])
{
    unsigned char sum[SHA256_DIGEST_LENGTH];
    SHA256(s->bytes, s->n, sum);
    hex_of(out, sum, sizeof(sum));
}

static json_t *write_one(const char *dir, int64_t step, int rank, const struct own_state *s,
                         struct err *e)
{
    char sum[SUM_TEXT], name[NAME_BYTES], path[PATH_BYTES];
    if (s->n == 0) {
        return json_null();
    }
    sum_of(s, sum);
    snprintf(name, sizeof(name), "step-%012lld.rank-%d.%.12s.state", (long long)step, rank, sum);
    snprintf(path, sizeof(path), "%.3900s/%s", dir, name);
    if (proc_write_file(path, s->bytes, s->n, 0644, e) < 0) {
        return NULL;
    }
    return json_pack("{s:s, s:I, s:s}", "file", name, "bytes", (json_int_t)s->n, "sha256", sum);
}

json_t *own_files_write(const char *dir, int64_t step, const struct own_state *own, int n,
                        struct err *e)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        json_t *one = write_one(dir, step, i, &own[i], e);
        if (!one) {
            json_decref(list);
            return NULL;
        }
        json_array_append_new(list, one);
    }
    return list;
}

static int is_another(const char *name, struct err *e)
{
    return err_set(e, ERR_DATA, "its state '%.100s' has been altered", name);
}

static int read_one(const char *dir, const json_t *entry, struct own_state *out, struct err *e)
{
    const char *name = json_string_value(json_object_get(entry, "file")),
               *told = json_string_value(json_object_get(entry, "sha256"));
    json_int_t bytes = json_integer_value(json_object_get(entry, "bytes"));
    char path[PATH_BYTES], sum[SUM_TEXT];
    size_t n;
    if (json_is_null(entry)) {
        return 0;
    }
    if (!name || !told || strchr(name, '/') || bytes < 1 || bytes > OWN_STATE_MOST) {
        return err_set(e, ERR_DATA, "its list of workers' states is malformed");
    }
    snprintf(path, sizeof(path), "%.3900s/%.100s", dir, name);
    uint8_t *read = (uint8_t *)proc_read_file(path, OWN_STATE_MOST + 1, &n, e);
    if (!read) {
        return -ERR_DATA;
    }
    if (n != (size_t)bytes) {
        free(read);
        return is_another(name, e);
    }
    int rc = own_state_adopt(out, read, n, e);
    if (rc < 0) {
        return rc;
    }
    sum_of(out, sum);
    return strcmp(sum, told) == 0 ? 0 : is_another(name, e);
}

int own_files_read(const char *dir, const json_t *list, struct own_state **out, int *n,
                   struct err *e)
{
    size_t many = json_array_size(list);
    struct own_state *own = many ? calloc(many, sizeof(*own)) : NULL;
    int rc = many && !own ? err_set(e, ERR_MEMORY, "memory ran out") : 0;
    for (size_t i = 0; i < many && rc >= 0; i++) {
        rc = read_one(dir, json_array_get(list, i), &own[i], e);
    }
    if (rc < 0) {
        own_files_release(own, own ? (int)many : 0);
        return rc;
    }
    *out = own;
    *n = (int)many;
    return 0;
}

void own_files_release(struct own_state *own, int n)
{
    for (int i = 0; i < n; i++) {
        own_state_release(&own[i]);
    }
    free(own);
}

/* ---- what is left over ----------------------------------------------------------------------- */

static bool step_of(const char *name, long long *step)
{
    int end = 0;
    return sscanf(name, "step-%12lld.rank-%*d.%n", step, &end) == 1 && end > 0 &&
           strstr(name, ".state");
}

static bool named(const json_t *list, const char *name)
{
    size_t i;
    json_t *one;
    json_array_foreach((json_t *)list, i, one) {
        const char *file = json_string_value(json_object_get(one, "file"));
        if (file && strcmp(file, name) == 0) {
            return true;
        }
    }
    return false;
}

void own_files_sweep(const char *dir, int64_t step, const json_t *list)
{
    DIR *d = opendir(dir);
    struct dirent *one;
    char path[PATH_BYTES];
    long long of;
    while (d && (one = readdir(d))) {
        if (!step_of(one->d_name, &of)) {
            continue;
        }
        snprintf(path, sizeof(path), "%.3900s/step-%012lld.safetensors", dir, of);
        if (of == step ? !named(list, one->d_name) : access(path, F_OK) != 0) {
            snprintf(path, sizeof(path), "%.3800s/%.255s", dir, one->d_name);
            unlink(path);
        }
    }
    if (d) {
        closedir(d);
    }
}
