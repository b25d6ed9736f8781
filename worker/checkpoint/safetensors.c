/* Reads and writes safetensors (see safetensors.h). A file may come from anywhere, so every number
 * in its header is compared with its size before use. A file gets its name only when it is
 * complete.
 */
#include "worker/checkpoint/safetensors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/text/hex.h"
#include "common/json/jsonx.h"

enum { HEAD_MAX = 16 << 20, SUM_DIGITS = 64, SUM_TEXT = SUM_DIGITS + 1 };

/* ---- checksum
 * --------------------------------------------------------------------------------------------
 *
 * SHA-256 over the whole file, length of the header included, with zeros where the checksum itself
 * stands. So there is no byte of the file that can change without being noticed.
 */

static const char sum_key[] = "\"checksum\":\"";

static void sum_print(EVP_MD_CTX *md, char out[SUM_TEXT])
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    EVP_DigestFinal_ex(md, sum, NULL);
    EVP_MD_CTX_free(md);
    hex_of(out, sum, SUM_DIGITS / 2);
}

/* The position of the digits in a header; NULL if they are not there in the form that we write. A
 * string inside the JSON cannot match, because its quotes are escaped. */
static char *find_sum(const char *head, size_t bytes, const char *digits)
{
    char text[sizeof(sum_key) + SUM_DIGITS + 1];
    snprintf(text, sizeof(text), "%s%s\"", sum_key, digits);
    char *at = memmem(head, bytes, text, strlen(text));
    return at ? at + strlen(sum_key) : NULL;
}

static EVP_MD_CTX *sum_begin(const char *head, size_t bytes, const char *digits_at)
{
    static const char zeros[] = "0000000000000000000000000000000000000000000000000000000000000000";
    size_t before = (size_t)(digits_at - head);
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    BUG_ON(!md || EVP_DigestInit_ex(md, EVP_sha256(), NULL) != 1 || before + SUM_DIGITS > bytes);
    EVP_DigestUpdate(md, head, before);
    EVP_DigestUpdate(md, zeros, SUM_DIGITS);
    EVP_DigestUpdate(md, digits_at + SUM_DIGITS, bytes - before - SUM_DIGITS);
    return md;
}

/* ---- writing --------------------------------------------------------------------------------- */

static json_t *header_json(const struct safetensor *tensors, int n, const json_t *metadata)
{
    char none[SUM_TEXT];
    json_t *head = json_object(), *meta = json_copy((json_t *)metadata);
    size_t at = 0;
    memset(none, '0', SUM_DIGITS);
    none[SUM_DIGITS] = '\0';
    json_object_set_new(meta, "checksum", json_string(none));
    json_object_set_new(head, "__metadata__", meta);
    for (int i = 0; i < n; i++) {
        const struct safetensor *t = &tensors[i];
        size_t size = t->count * sizeof(float);
        json_t *shape = json_array();
        for (int d = 0; d < t->rank; d++) {
            json_array_append_new(shape, json_integer(t->dim[d]));
        }
        json_object_set_new(head, t->name,
                            json_pack("{s:s, s:o, s:[I,I]}", "dtype", "F32", "shape", shape,
                                      "data_offsets", (json_int_t)at, (json_int_t)(at + size)));
        at += size;
    }
    return head;
}

static char *make_header(const struct safetensor *tensors, int n, const json_t *metadata,
                         size_t *bytes, struct err *e)
{
    json_t *head = header_json(tensors, n, metadata);
    char *text = json_dumps(head, JSON_COMPACT);
    size_t length = text ? strlen(text) : 0, padded = (length + 7) & ~(size_t)7;
    char *out = text ? malloc(8 + padded + 1) : NULL;
    if (!out) {
        err_set(e, ERR_MEMORY, "memory ran out");
    } else {
        uint64_t le = padded;
        memcpy(out, &le, 8);
        memcpy(out + 8, text, length);
        memset(out + 8 + length, ' ', padded - length);
        *bytes = 8 + padded;
        char sum[SUM_TEXT];
        const char *digits =
            json_string_value(json_object_get(json_object_get(head, "__metadata__"), "checksum"));
        char *digits_at = find_sum(out, *bytes, digits);
        BUG_ON(!digits_at);
        EVP_MD_CTX *md = sum_begin(out, *bytes, digits_at);
        for (int i = 0; i < n; i++) {
            EVP_DigestUpdate(md, tensors[i].data, tensors[i].count * sizeof(float));
        }
        sum_print(md, sum);
        memcpy(digits_at, sum, SUM_DIGITS);
    }
    json_decref(head);
    free(text);
    return out;
}

static int write_all(int fd, const void *data, size_t bytes)
{
    const char *p = data;
    while (bytes > 0) {
        ssize_t n = write(fd, p, bytes < (1u << 30) ? bytes : 1u << 30);
        if (n < 0 && errno != EINTR) {
            return -1;
        }
        p += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static void sync_folder(const char *path)
{
    char dir[4096];
    snprintf(dir, sizeof(dir), "%s", path);
    char *slash = strrchr(dir, '/');
    if (slash) {
        slash[slash == dir] = '\0';
        int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0) {
            fsync(fd);
            close(fd);
        }
    }
}

int safetensors_write(const char *path, const struct safetensor *tensors, int n,
                      const json_t *metadata, struct err *e)
{
    char temporary[4096 + 32];
    size_t head_bytes = 0;
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash + 1 - path) : 0; /* a name with a dot is listed nowhere */
    snprintf(temporary, sizeof(temporary), "%.*s.%s.%ld.tmp", folder, path, path + folder,
             (long)getpid());
    char *head = make_header(tensors, n, metadata, &head_bytes, e);
    if (!head) {
        return err_prefix(e, "cannot write '%.200s'", path);
    }
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    bool good = fd >= 0 && write_all(fd, head, head_bytes) == 0;
    for (int i = 0; good && i < n; i++) {
        good = write_all(fd, tensors[i].data, tensors[i].count * sizeof(float)) == 0;
    }
    good = good && fsync(fd) == 0;
    int why = errno;
    if (fd >= 0 && close(fd) < 0 && good) {
        good = false;
        why = errno;
    }
    if (good && rename(temporary, path) < 0) {
        good = false;
        why = errno;
    }
    free(head);
    if (!good) {
        unlink(temporary);
        errno = why;
        return err_errno(e, ERR_IO, "cannot write '%.200s'", path);
    }
    sync_folder(path);
    return 0;
}

static int is_torn(const struct dirent *d)
{
    return fnmatch(".*.safetensors.*.tmp", d->d_name, 0) == 0;
}

void safetensors_drop_torn(const char *dir)
{
    struct dirent **names;
    char path[4096 + 300];
    int n = scandir(dir, &names, is_torn, NULL);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
        unlink(path);
        free(names[i]);
    }
    if (n >= 0) {
        free(names);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

static int read_tensor(const struct safetensors *s, struct safetensor *t, const char *name,
                       const json_t *j, struct err *e)
{
    const char *type = json_string_value(json_object_get(j, "dtype"));
    const json_t *shape = json_object_get(j, "shape"), *at = json_object_get(j, "data_offsets");
    size_t room = s->map_bytes - s->data_at;
    if (!type || !json_is_array(shape) || json_array_size(at) != 2 ||
        strlen(name) >= sizeof(t->name) || json_array_size(shape) > SAFETENSORS_RANK) {
        return err_set(e, ERR_DATA, "the entry of tensor '%.100s' is malformed", name);
    }
    memcpy(t->name, name, strlen(name) + 1);
    t->rank = (int)json_array_size(shape);
    t->count = 1;
    for (int i = 0; i < t->rank; i++) {
        t->dim[i] = json_integer_value(json_array_get(shape, (size_t)i));
        if (t->dim[i] < 0 || (t->dim[i] > 0 && t->count > room / (size_t)t->dim[i])) {
            return err_set(e, ERR_DATA, "tensor '%s' has the size %lld on axis %d", name,
                           (long long)t->dim[i], i);
        }
        t->count *= (size_t)t->dim[i];
    }
    json_int_t first = json_integer_value(json_array_get(at, 0)),
               last = json_integer_value(json_array_get(at, 1));
    if (first < 0 || last < first || (size_t)last > room) {
        return err_set(e, ERR_DATA, "tensor '%s' is at bytes %lld to %lld, but the file has %zu",
                       name, (long long)first, (long long)last, room);
    }
    if (strcmp(type, "F32") != 0) {
        t->count = 0; /* such as PyTorch's num_batches_tracked; readers see that it is empty */
    } else if (t->count * sizeof(float) != (size_t)(last - first)) {
        return err_set(e, ERR_DATA, "tensor '%s' has %lld bytes, its shape needs %zu", name,
                       (long long)(last - first), t->count * 4);
    }
    t->data = (const char *)s->map + s->data_at + first;
    return 0;
}

static int read_header(struct safetensors *s, struct err *e)
{
    uint64_t length;
    if (s->map_bytes < 8) {
        return err_set(e, ERR_DATA, "it has only %zu bytes", s->map_bytes);
    }
    memcpy(&length, s->map, 8);
    if (length > HEAD_MAX || length > s->map_bytes - 8) {
        return err_set(e, ERR_DATA,
                       "it is cut off, or no safetensors file: its header should have %llu bytes, "
                       "the file has %zu",
                       (unsigned long long)length, s->map_bytes);
    }
    s->data_at = 8 + (size_t)length;
    json_t *head = jsonx_parse((const char *)s->map + 8, (size_t)length, e);
    if (!head) {
        return err_prefix(e, "its header is malformed");
    }
    if (!json_is_object(head)) {
        json_decref(head);
        return err_set(e, ERR_DATA, "its header is not an object");
    }
    s->tensors = calloc(json_object_size(head) + 1, sizeof(*s->tensors));
    s->metadata = json_incref(json_object_get(head, "__metadata__"));
    if (!s->metadata) {
        s->metadata = json_object();
    }
    int rc = s->tensors ? 0 : err_set(e, ERR_MEMORY, "memory ran out");
    const char *name;
    json_t *value;
    json_object_foreach(head, name, value) {
        if (rc == 0 && strcmp(name, "__metadata__") != 0) {
            rc = read_tensor(s, &s->tensors[s->n++], name, value, e);
        }
    }
    json_decref(head);
    return rc;
}

static int verify_sum(const struct safetensors *s, bool needed, struct err *e)
{
    char sum[SUM_TEXT];
    const char *told = safetensors_meta(s, "checksum"), *head = s->map;
    if (!told) {
        return needed ? err_set(e, ERR_DATA, "it has no checksum") : 0;
    }
    const char *at = strlen(told) == SUM_DIGITS ? find_sum(head, s->data_at, told) : NULL;
    if (at) {
        EVP_MD_CTX *md = sum_begin(head, s->data_at, at);
        EVP_DigestUpdate(md, head + s->data_at, s->map_bytes - s->data_at);
        sum_print(md, sum);
    }
    if (!at || strcmp(sum, told) != 0) {
        err_set(e, ERR_DATA, "its checksum does not fit: the file was cut off or altered");
        err_hint(
            e,
            "a program that changes such a file on purpose leaves 'checksum' out of its metadata");
        return -ERR_DATA;
    }
    return 0;
}

int safetensors_open(struct safetensors *s, const char *path, bool verify, struct err *e)
{
    struct stat st;
    memset(s, 0, sizeof(*s));
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* of a pipe nobody may write to */
    if (fd >= 0 && fstat(fd, &st) == 0 && !S_ISREG(st.st_mode)) {
        close(fd);
        return err_set(e, ERR_DATA, "cannot read '%.200s': it is not a regular file", path);
    }
    if (fd < 0 || fstat(fd, &st) < 0) {
        int rc = err_errno(e, ERR_IO, "cannot read '%.200s'", path);
        if (fd >= 0) {
            close(fd);
        }
        return rc;
    }
    s->map_bytes = (size_t)st.st_size;
    s->map = s->map_bytes ? mmap(NULL, s->map_bytes, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    close(fd);
    int rc;
    if (s->map == MAP_FAILED) {
        s->map = NULL;
        rc = err_errno(e, ERR_IO, "it cannot be mapped");
    } else {
        rc = read_header(s, e);
    }
    if (rc == 0) {
        rc = verify_sum(s, verify, e);
    }
    if (rc < 0) {
        safetensors_close(s);
        return err_prefix(e, "cannot read '%.200s'", path);
    }
    return 0;
}

void safetensors_close(struct safetensors *s)
{
    free(s->tensors);
    json_decref(s->metadata);
    if (s->map) {
        munmap(s->map, s->map_bytes);
    }
    memset(s, 0, sizeof(*s));
}

const struct safetensor *safetensors_find(const struct safetensors *s, const char *name)
{
    for (int i = 0; i < s->n; i++) {
        if (strcmp(s->tensors[i].name, name) == 0) {
            return &s->tensors[i];
        }
    }
    return NULL;
}

const char *safetensors_meta(const struct safetensors *s, const char *key)
{
    return json_string_value(json_object_get(s->metadata, key));
}
