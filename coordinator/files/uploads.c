/* Uploaded programs: see uploads.h. The archive is written under a temporary name, synced, and
 * renamed last. So a process that is killed leaves no half of a program. */
#include "coordinator/files/uploads.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/archive/archive.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/process/proc.h"
#include "coordinator/files/openjobs.h"
#include "job/node/program_manifest.h"

static const char unfinished[] = ".part-";
enum { FRESH_SECONDS = 3600, CHUNK = 64 << 10, FACTS_BYTES = 1 << 20 };

/* DIR/uploads/NAME + suffix. */
static void path_of(const char *data_dir, const char *name, const char *suffix, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%.3900s/uploads/%.100s%s", data_dir, name, suffix);
}

void uploads_init(const char *data_dir)
{
    char path[PATH_MAX];
    path_of(data_dir, "", "", path);
    DIR *d = opendir(path);
    for (const struct dirent *f; d && (f = readdir(d));) {
        if (strncmp(f->d_name, unfinished, strlen(unfinished)) == 0) {
            path_of(data_dir, f->d_name, "", path);
            unlink(path);
        }
    }
    if (d) {
        closedir(d);
    }
}

/* ---- one program ----------------------------------------------------------------------------- */

json_t *uploads_get(const char *data_dir, const char *digest, struct err *e)
{
    char path[PATH_MAX], used[32];
    struct stat st;
    path_of(data_dir, digest, ".tar", path);
    if (!archive_is_digest(digest) || stat(path, &st) != 0) {
        err_set(e, ERR_NOT_FOUND, "no program with the digest '%.80s' was uploaded", digest);
        return NULL;
    }
    path_of(data_dir, digest, ".json", path);
    json_t *facts = jsonx_load(path, FACTS_BYTES, e);
    if (facts) {
        json_object_set_new(facts, "used",
                            json_string(clock_format(used, 1000 * (int64_t)st.st_mtim.tv_sec)));
    }
    return facts;
}

void uploads_use(const char *data_dir, const char *digest, char path[PATH_MAX])
{
    path_of(data_dir, digest, ".tar", path);
    utimensat(AT_FDCWD, path, NULL, 0);
}

static int forget(const char *data_dir, const char *digest, struct err *e)
{
    char path[PATH_MAX];
    path_of(data_dir, digest, ".tar", path);
    if (unlink(path) != 0) {
        return err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO,
                         "cannot delete the program '%.12s…'", digest);
    }
    path_of(data_dir, digest, ".json", path);
    unlink(path);
    return 0;
}

int uploads_delete(const char *data_dir, struct store *s, const char *digest, struct err *e)
{
    char job[STORE_ID];
    json_t *facts = uploads_get(data_dir, digest, e);
    if (!facts) {
        return -(int)e->code;
    }
    json_decref(facts);
    int rc = openjobs_name(s, digest, job, e);
    if (rc < 0) {
        return rc;
    }
    if (job[0]) {
        return err_set(e, ERR_CONFLICT, "the job or sweep '%s' needs the program '%.12s…'", job,
                       digest);
    }
    return forget(data_dir, digest, e);
}

/* ---- keeping --------------------------------------------------------------------------------- */

static int copy_to(FILE *from, int fd, const char *path, struct err *e)
{
    char *bytes = malloc(CHUNK);
    size_t n = 0;
    if (!bytes) {
        return err_set(e, ERR_MEMORY, "cannot keep an upload: memory ran out");
    }
    rewind(from);
    while ((n = fread(bytes, 1, CHUNK, from)) > 0 && write(fd, bytes, n) == (ssize_t)n) {
    }
    free(bytes);
    return n > 0 || ferror(from) || fsync(fd) != 0 ? err_errno(e, ERR_IO, "cannot write '%s'", path)
                                                   : 0;
}

static int write_facts(const char *data_dir, const json_t *facts, struct err *e)
{
    char path[PATH_MAX];
    size_t n = 0;
    char *text = jsonx_dump(facts, true, &n);
    path_of(data_dir, json_string_value(json_object_get(facts, "digest")), ".json", path);
    int rc = text ? proc_write_file(path, text, n, 0600, e)
                  : err_set(e, ERR_MEMORY, "cannot keep an upload: memory ran out");
    free(text);
    return rc;
}

static int keep(const char *data_dir, FILE *archive, const json_t *facts, struct err *e)
{
    char path[PATH_MAX], part[PATH_MAX];
    path_of(data_dir, "", "", path);
    int rc = proc_mkdirs(path, 0700, e);
    if (rc < 0 || (rc = write_facts(data_dir, facts, e)) < 0) {
        return rc;
    }
    path_of(data_dir, unfinished, "XXXXXX", part);
    int fd = mkostemp(part, O_CLOEXEC);
    if (fd < 0) {
        return err_errno(e, ERR_IO, "cannot write '%s'", part);
    }
    path_of(data_dir, json_string_value(json_object_get(facts, "digest")), ".tar", path);
    rc = copy_to(archive, fd, part, e);
    close(fd);
    if (rc == 0 && rename(part, path) != 0) {
        rc = err_errno(e, ERR_IO, "cannot write '%s'", path);
    }
    if (rc < 0) {
        unlink(part);
    }
    return rc;
}

static json_t *read_manifest(const char *text, struct jsonx_problems *problems)
{
    struct err why = {0};
    json_t *given = jsonx_parse(text, strlen(text), &why);
    if (!given) {
        jsonx_problem(problems, "/" ARCHIVE_MANIFEST, "%s", why.message);
        return NULL;
    }
    json_t *manifest = program_manifest_read(given, "/" ARCHIVE_MANIFEST, problems);
    json_decref(given);
    return manifest;
}

/* The facts of an archive. NULL: its manifest is malformed, which becomes a problem. */
static json_t *facts_of(const struct archive *a, const char *who, struct jsonx_problems *problems)
{
    char now[32];
    json_t *manifest = a->manifest ? read_manifest(a->manifest, problems) : json_null();
    return manifest ? json_pack("{s:s, s:i, s:I, s:s, s:s, s:o}", "digest", a->digest, "files",
                                a->files, "bytes", (json_int_t)a->bytes, "uploaded",
                                clock_format(now, clock_wall_ms()), "by", who, "manifest", manifest)
                    : NULL;
}

json_t *uploads_add(const char *data_dir, FILE *archive, const char *who, bool *fresh,
                    struct jsonx_problems *problems, struct err *e)
{
    struct archive a;
    char path[PATH_MAX], quoted[300];
    json_t *facts = NULL;
    *fresh = false;
    int rc = archive_read(archive, NULL, ARCHIVE_PROGRAM_FILES, &a, problems, e);
    if (rc == 0 && (facts = facts_of(&a, who, problems)) && problems->count == 0) {
        uploads_use(data_dir, a.digest, path);
        *fresh = access(path, R_OK) != 0;
        rc = *fresh ? keep(data_dir, archive, facts, e) : 0;
    }
    json_decref(facts);
    facts = rc == 0 && problems->count == 0 ? uploads_get(data_dir, a.digest, e) : NULL;
    if (facts && *fresh) {
        log_info("programs", "uploaded", "digest=%s by=%s files=%d bytes=%lld", a.digest,
                 log_quote(quoted, sizeof quoted, who), a.files, (long long)a.bytes);
    }
    archive_release(&a);
    return facts;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static int by_use(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    int c = strcmp(json_string_value(json_object_get(y, "used")),
                   json_string_value(json_object_get(x, "used")));
    return c ? c
             : strcmp(json_string_value(json_object_get(x, "digest")),
                      json_string_value(json_object_get(y, "digest")));
}

static json_t *sorted(json_t *list)
{
    size_t n = json_array_size(list);
    json_t **items = calloc(n + 1, sizeof *items), *out = json_array();
    for (size_t i = 0; items && i < n; i++) {
        items[i] = json_array_get(list, i);
    }
    if (items) {
        qsort(items, n, sizeof *items, by_use);
    }
    for (size_t i = 0; items && i < n; i++) {
        json_array_append(out, items[i]);
    }
    free(items);
    json_decref(list);
    return out;
}

json_t *uploads_list(const char *data_dir, struct err *e)
{
    char path[PATH_MAX], digest[ARCHIVE_HEX];
    json_t *list = json_array();
    path_of(data_dir, "", "", path);
    DIR *d = opendir(path);
    for (const struct dirent *f; d && (f = readdir(d));) {
        const char *dot = strchr(f->d_name, '.');
        if (!dot || strcmp(dot, ".tar") != 0 || dot - f->d_name != ARCHIVE_HEX - 1) {
            continue;
        }
        snprintf(digest, sizeof digest, "%s", f->d_name);
        json_t *facts = uploads_get(data_dir, digest, e); /* NULL: deleted meanwhile */
        if (facts) {
            json_array_append_new(list, facts);
        }
    }
    if (d) {
        closedir(d);
    }
    return sorted(list);
}

/* ---- room ------------------------------------------------------------------------------------ */

int64_t uploads_bytes(const char *data_dir)
{
    char path[PATH_MAX];
    path_of(data_dir, "", "", path);
    return proc_tree_bytes(path);
}

static bool was_used_lately(const char *data_dir, const char *digest)
{
    char path[PATH_MAX];
    struct stat st;
    path_of(data_dir, digest, ".tar", path);
    return stat(path, &st) != 0 || time(NULL) - st.st_mtim.tv_sec < FRESH_SECONDS;
}

int64_t uploads_make_room(const char *data_dir, struct store *s, int64_t wanted, struct err *e)
{
    json_t *list = uploads_list(data_dir, e);
    int64_t freed = 0;
    for (size_t i = json_array_size(list); i-- > 0 && freed < wanted;) {
        const char *digest = json_string_value(json_object_get(json_array_get(list, i), "digest"));
        int64_t before = uploads_bytes(data_dir);
        char job[STORE_ID];
        if (was_used_lately(data_dir, digest)) {
            continue;
        }
        int rc = openjobs_name(s, digest, job, e);
        if (rc < 0) {
            freed = rc;
            break;
        }
        if (!job[0] && forget(data_dir, digest, NULL) == 0) {
            freed += before - uploads_bytes(data_dir);
            log_info("programs", "an uploaded program that no job needs makes room", "digest=%s",
                     digest);
        }
    }
    json_decref(list);
    return freed;
}

json_t *uploads_manifest(const json_t *facts)
{
    return json_object_get(facts, "manifest");
}
