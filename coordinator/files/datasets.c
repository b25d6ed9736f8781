/* Uploaded data sets: see datasets.h. */
#include "coordinator/files/datasets.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/archive/archive.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/process/proc.h"
#include "coordinator/files/openjobs.h"

static const char unfinished[] = ".part-";
enum { NAME_MOST = 64, FACTS_BYTES = 64 << 10 };

/* Two uploads may end at the same time. An upload holds this lock while it checks the name and the
 * room, and renames. */
static pthread_mutex_t naming = PTHREAD_MUTEX_INITIALIZER;

/* DIR/datasets/ + prefix + name + suffix. */
static void path_of(const char *data_dir, const char *prefix, const char *name, const char *suffix,
                    char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%.3800s/" DATASETS_FOLDER "/%s%.100s%s", data_dir, prefix, name,
             suffix);
}

void datasets_init(const char *data_dir)
{
    char path[PATH_MAX];
    path_of(data_dir, "", "", "", path);
    DIR *d = opendir(path);
    for (const struct dirent *f; d && (f = readdir(d));) {
        if (strncmp(f->d_name, unfinished, strlen(unfinished)) == 0) {
            path_of(data_dir, "", f->d_name, "", path);
            proc_remove_tree(path, NULL);
        }
    }
    if (d) {
        closedir(d);
    }
}

/* ---- may it be taken? ------------------------------------------------------------------------ */

static int check_name(const char *name, struct err *e)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
        "._-";
    size_t n = strlen(name);
    if (strcmp(name, "samples") == 0) { /* the address /datasets/samples shows samples of any data
                                           set */
        return err_set(e, ERR_INVALID, "a data set cannot be called 'samples': take another name");
    }
    if (n == 0 || n > NAME_MOST || strspn(name, letters) != n || name[0] == '.' || name[0] == '-') {
        return err_set(
            e, ERR_INVALID,
            "a data set cannot be called '%.80s': expected 1 to %d letters, digits, '.', '_' "
            "and '-', of which the first is a letter or a digit",
            name, NAME_MOST);
    }
    return 0;
}

/* Does a root that the operator gave have a file or folder of this name? */
static bool is_taken(const struct datasets *d, const char *name)
{
    char own[PATH_MAX], path[PATH_MAX];
    path_of(d->data_dir, "", "", "", own);
    for (const char *r = d->roots; r && *r;) {
        size_t n = strcspn(r, ":");
        bool is_own = n + 1 == strlen(own) && strncmp(r, own, n) == 0;
        snprintf(path, sizeof path, "%.*s/%s", (int)n, r, name);
        if (!is_own && n > 0 && access(path, F_OK) == 0) {
            return true;
        }
        r += n + (r[n] == ':');
    }
    return false;
}

int64_t datasets_bytes(const char *data_dir)
{
    char path[PATH_MAX];
    path_of(data_dir, "", "", "", path);
    return proc_tree_bytes(path);
}

int64_t datasets_bytes_again(const char *data_dir, struct datasets_known *known)
{
    char path[PATH_MAX];
    struct stat st;
    struct timespec now;
    path_of(data_dir, "", "", "", path);
    bool there = stat(path, &st) == 0;
    if (there && known->changed.tv_sec == st.st_mtim.tv_sec &&
        known->changed.tv_nsec == st.st_mtim.tv_nsec) {
        return known->bytes;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    known->bytes = proc_tree_bytes(path);
    /* two changes within one tick of the file system's clock look like one */
    bool settled = there && now.tv_sec - st.st_mtim.tv_sec > 1;
    known->changed = settled ? st.st_mtim : (struct timespec){0};
    return known->bytes;
}

/* Checks that there is room for `bytes` more. */
static int check_room(const struct datasets *d, int64_t bytes, struct err *e)
{
    int64_t taken = datasets_bytes(d->data_dir) + bytes;
    if (taken <= d->most_bytes) {
        return 0;
    }
    err_set(e, ERR_TOO_LARGE,
            "uploaded data sets would take %.1f MB with this one; this service gives them %.1f MB",
            (double)taken / 1e6, (double)d->most_bytes / 1e6);
    return err_hint(e,
                    "delete one that is not needed, or start the service with a larger "
                    "--data-uploads");
}

/* ---- keeping --------------------------------------------------------------------------------- */

static json_t *load_facts(const struct datasets *d, const char *name, struct err *e)
{
    char path[PATH_MAX];
    path_of(d->data_dir, ".", name, ".json", path);
    json_t *facts = access(path, F_OK) == 0 ? jsonx_load(path, FACTS_BYTES, e) : NULL;
    if (!facts && access(path, F_OK) != 0) {
        err_set(e, ERR_NOT_FOUND, "no data set '%.80s' was uploaded", name);
    }
    return facts;
}

static int save_facts(const struct datasets *d, const char *name, const json_t *facts,
                      struct err *e)
{
    char path[PATH_MAX];
    size_t n = 0;
    char *text = jsonx_dump(facts, true, &n);
    path_of(d->data_dir, ".", name, ".json", path);
    int rc = text ? proc_write_file(path, text, n, 0600, e)
                  : err_set(e, ERR_MEMORY, "cannot keep a data set: memory ran out");
    free(text);
    return rc;
}

static int64_t size_of(FILE *archive)
{
    struct stat st;
    return fstat(fileno(archive), &st) == 0 ? (int64_t)st.st_size : 0;
}

/* Gives the unpacked folder its name, unless the data set is there already. *fresh says which. */
static int settle(const struct datasets *d, const char *name, const char *from,
                  const struct archive *a, json_t *facts, bool *fresh, struct err *e)
{
    char path[PATH_MAX];
    int rc;
    path_of(d->data_dir, "", name, "", path);
    if (is_taken(d, name)) {
        return err_set(e, ERR_CONFLICT, "the operator's data has a '%s' already", name);
    }
    if (access(path, F_OK) == 0) {
        json_t *old = load_facts(d, name, e);
        bool same = old && strcmp(jsonx_string_at(old, "digest"), a->digest) == 0;
        if (same) {
            json_object_update(facts, old);
        }
        json_decref(old);
        return same ? 0 : err_set(e, ERR_CONFLICT, "another data set is called '%s' already", name);
    }
    if ((rc = check_room(d, 0, e)) < 0 || (rc = save_facts(d, name, facts, e)) < 0) {
        return rc;
    }
    *fresh = rename(from, path) == 0;
    return *fresh ? 0 : err_errno(e, ERR_IO, "cannot keep the data set '%s'", name);
}

/* Tries the data set that is unpacked as `part`/NAME. */
static json_t *try_out(const char *part, const struct dataset_upload *up, struct archive *a,
                       datasets_show *show, void *ctx, struct jsonx_problems *problems,
                       struct err *e)
{
    char into[PATH_MAX];
    snprintf(into, sizeof into, "%.4000s/%.64s", part, up->name);
    if (proc_mkdirs(into, 0700, e) < 0 ||
        archive_read(up->archive, into, ARCHIVE_DATA_FILES, a, problems, e) < 0 ||
        problems->count > 0) {
        return NULL;
    }
    json_t *shown = show(ctx, part, up->name, e);
    if (!shown && (e->code == ERR_NOT_FOUND || e->code == ERR_DATA)) {
        char why[sizeof e->message];
        snprintf(why, sizeof why, "%s", e->message);
        err_set(e, ERR_INVALID, "this is not a data set that a job could read: %.300s", why);
        err_hint(e,
                 "idx, npy or CIFAR files, or pictures in a folder for each class, as "
                 "docs/data.md says");
    }
    return shown;
}

json_t *datasets_add(const struct datasets *d, const struct dataset_upload *up, datasets_show *show,
                     void *ctx, bool *fresh, struct jsonx_problems *problems, struct err *e)
{
    char part[PATH_MAX], from[PATH_MAX + 80], now[32], quoted[300];
    struct archive a = {0};
    json_t *shown = NULL, *facts = NULL;
    *fresh = false;
    path_of(d->data_dir, "", "", "", part);
    int rc = check_name(up->name, e);
    if (rc < 0 || proc_mkdirs(part, 0700, e) < 0 || check_room(d, size_of(up->archive), e) < 0) {
        return NULL;
    }
    path_of(d->data_dir, "", unfinished, "XXXXXX", part);
    if (!mkdtemp(part)) {
        err_errno(e, ERR_IO, "cannot unpack a data set into '%s'", part);
        return NULL;
    }
    if ((shown = try_out(part, up, &a, show, ctx, problems, e))) {
        facts = json_pack("{s:s, s:i, s:I, s:s, s:s}", "digest", a.digest, "files", a.files,
                          "bytes", (json_int_t)a.bytes, "uploaded",
                          clock_format(now, clock_wall_ms()), "by", up->by);
        snprintf(from, sizeof from, "%s/%s", part, up->name);
        pthread_mutex_lock(&naming);
        rc = settle(d, up->name, from, &a, facts, fresh, e);
        pthread_mutex_unlock(&naming);
        if (rc == 0) {
            json_object_update(shown, facts);
        } else {
            json_decref(shown);
            shown = NULL;
        }
    }
    if (*fresh) {
        log_info("data", "uploaded", "name=%s digest=%s by=%s files=%d bytes=%lld", up->name,
                 a.digest, log_quote(quoted, sizeof quoted, up->by), a.files, (long long)a.bytes);
    }
    proc_remove_tree(part, NULL);
    json_decref(facts);
    archive_release(&a);
    return shown;
}

/* ---- deleting -------------------------------------------------------------------------------- */

int datasets_delete(const struct datasets *d, struct store *s, const char *name, struct err *e)
{
    char text[NAME_MOST + 16], job[STORE_ID], path[PATH_MAX], gone[PATH_MAX];
    int rc = check_name(name, NULL);
    json_t *facts = rc < 0 ? NULL : load_facts(d, name, e);
    if (!facts) {
        return rc < 0 ? err_set(e, ERR_NOT_FOUND, "no data set '%.80s' was uploaded", name)
                      : -(int)e->code;
    }
    json_decref(facts);
    snprintf(text, sizeof text, "\"path\":\"%s\"", name);
    if ((rc = openjobs_name(s, text, job, e)) < 0) {
        return rc;
    }
    if (job[0]) {
        return err_set(e, ERR_CONFLICT, "the job or sweep '%s' needs the data set '%s'", job, name);
    }
    path_of(d->data_dir, "", name, "", path);
    path_of(d->data_dir, unfinished, name, "", gone); /* renamed first, so that nothing half removed
                                                         keeps the name */
    pthread_mutex_lock(&naming);
    rc = rename(path, gone) == 0 ? 0 : err_errno(e, ERR_IO, "cannot delete '%s'", path);
    if (rc == 0) {
        path_of(d->data_dir, ".", name, ".json", path);
        unlink(path);
        proc_remove_tree(gone, NULL);
    }
    pthread_mutex_unlock(&naming);
    return rc;
}
