/* Which data sets exist, for the page's form and to compare nodes. A folder is a data set of a
 * format if it has one of the format's markers in it.
 *
 * A digest takes reading every value, seconds for a large set, and the coordinator does not wait
 * that long. So digests are cached in a file, by the folder's name with names, sizes and times of
 * its files. When time is up, the remaining data sets are listed without a digest, and the next
 * call continues there.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/json/jsonx.h"
#include "common/process/proc.h"
#include "common/rng.h"
#include "worker/data/dataset.h"

enum {
    PATH_BYTES = 4096,
    LEVELS = 2,
    CACHE_BYTES = 16 << 20,
    NAMES_MOST = 1024,     /* names that the search for a similar one covers */
    DIGESTED_FILES = 20000 /* a folder of more pictures is listed without a digest */
};

struct listing {
    const char *roots;
    bool paths_only;             /* `list` has only paths */
    json_t *list, *known, *seen; /* known: read from the cache; seen: to be written to it */
    double until;
};

/* ---- what the file remembers ----------------------------------------------------------------- */

static uint64_t mix_entry(uint64_t h, const char *name, const struct stat *st)
{
    for (const char *p = name; *p; p++) {
        h = rng_mix(h, (uint64_t)(unsigned char)*p);
    }
    return rng_mix(rng_mix(h, (uint64_t)st->st_size),
                   (uint64_t)st->st_mtim.tv_sec * 1000000000ull + (uint64_t)st->st_mtim.tv_nsec);
}

/* Sets path[PATH_BYTES + 300] and *st of a visible entry; false: it counts for nothing. */
static bool find_entry(const char *dir, const struct dirent *entry, bool files, char *path,
                       struct stat *st)
{
    return (files || entry->d_type != DT_REG) && entry->d_name[0] != '.' &&
           snprintf(path, PATH_BYTES + 300, "%s/%s", dir, entry->d_name) < PATH_BYTES &&
           stat(path, st) == 0;
}

/* For a folder's own files: names, sizes and times. For folders below it, `levels` deep: names and
 * times, which change when a file is added, renamed or removed. */
static uint64_t mix_folder(uint64_t h, const char *dir, int levels, bool files)
{
    struct dirent **names;
    int n = scandir(dir, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char path[PATH_BYTES + 300];
        struct stat st;
        bool counts = find_entry(dir, names[i], files, path, &st);
        if (counts && S_ISREG(st.st_mode) && files) {
            h = mix_entry(h, names[i]->d_name, &st);
        } else if (counts && S_ISDIR(st.st_mode) && levels > 0) {
            h = mix_folder(mix_entry(h, names[i]->d_name, &st), path, levels - 1, false);
        }
        free(names[i]);
    }
    if (n >= 0) {
        free(names);
    }
    return h;
}

static void stamp(const char *dir, char out[20])
{
    snprintf(out, 20, "%016llx", (unsigned long long)mix_folder(1, dir, LEVELS, true));
}

static json_t *recall(const struct listing *l, const char *key, const char *mark)
{
    json_t *entry = json_object_get(l->known, key), *about = json_object_get(entry, "about");
    const char *told = json_string_value(json_object_get(entry, "stamp"));
    return told && strcmp(told, mark) == 0 && json_is_object(about) ? json_copy(about) : NULL;
}

static void remember(struct listing *l, const char *key, const char *mark, json_t *about)
{
    json_object_set_new(l->seen, key, json_pack("{s:s, s:O}", "stamp", mark, "about", about));
}

/* ---- one data set ---------------------------------------------------------------------------- */

static json_t *describe(const struct dataset *d, const char *path, int format)
{
    json_t *shape = json_array();
    for (int i = 0; i < d->input.rank; i++) {
        json_array_append_new(shape, json_integer(d->input.dim[i]));
    }
    return json_pack("{s:s, s:s, s:o, s:i, s:I, s:I, s:n}", "path", path, "format",
                     catalog_get(format)->name, "shape", shape, "classes", d->classes, "samples",
                     (json_int_t)d->train.samples, "test_samples", (json_int_t)d->test.samples,
                     "digest");
}

static bool may_digest(const struct listing *l, const json_t *about, int format)
{
    json_int_t samples = json_integer_value(json_object_get(about, "samples")) +
                         json_integer_value(json_object_get(about, "test_samples"));
    return !json_is_string(json_object_get(about, "digest")) && clock_now() < l->until &&
           (format != CAT_FORMAT_IMAGES || samples <= DIGESTED_FILES);
}

/* New reference, or NULL if it cannot be read. */
static json_t *find_out(struct listing *l, const char *dir, const char *path, int format)
{
    struct data_spec spec;
    struct dataset d;
    char key[PATH_BYTES + 64], mark[20];
    snprintf(key, sizeof(key), "%s %s", catalog_get(format)->name, dir);
    stamp(dir, mark);
    json_t *about = recall(l, key, mark);
    spec_data_defaults(&spec, format);
    memcpy(spec.path, path, strlen(path) + 1);
    if (!about && dataset_peek(&d, &spec, l->roots, NULL) == 0) {
        about = describe(&d, path, format);
        dataset_release(&d);
    }
    if (about) {
        json_object_set_new(about, "path", json_string(path)); /* roots may have moved */
        if (may_digest(l, about, format) && dataset_open(&d, &spec, 0, l->roots, NULL) == 0) {
            json_object_set_new(about, "digest", json_string(d.digest));
            dataset_release(&d);
        }
        remember(l, key, mark, about);
    }
    return about;
}

/* ---- folders --------------------------------------------------------------------------------- */

static bool listed(const json_t *list, const char *path)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) {
        const json_t *its = json_is_string(item) ? item : json_object_get(item, "path");
        if (strcmp(json_string_value(its), path) == 0) {
            return true;
        }
    }
    return false;
}

static bool marked(const char *roots, const struct dataset_format *f, const char *dir)
{
    char file[PATH_BYTES];
    if (f->match) {
        return f->match(dir);
    }
    for (int i = 0; f->markers[i]; i++) {
        if (dataset_file(roots, dir, f->markers[i], file, NULL) == 0) {
            return true;
        }
    }
    return false;
}

int dataset_detect(const char *roots, const char *dir)
{
    for (int i = 0; dataset_formats[i]; i++) {
        if (marked(roots, dataset_formats[i], dir)) {
            return dataset_formats[i]->id;
        }
    }
    return -1;
}

/* Lists the folder by each format that it has. Returns whether its subfolders belong to it, since
 * they are classes. */
static bool list_formats(struct listing *l, const char *dir, const char *path)
{
    bool classes = false;
    for (int i = 0; *path && strlen(path) < SPEC_PATH && dataset_formats[i]; i++) {
        if (!marked(l->roots, dataset_formats[i], dir) || listed(l->list, path)) {
            continue;
        }
        json_t *about =
            l->paths_only ? jsonx_text(path) : find_out(l, dir, path, dataset_formats[i]->id);
        if (about) {
            json_array_append_new(l->list, about);
        }
        classes |= dataset_formats[i]->id == CAT_FORMAT_IMAGES;
    }
    return classes;
}

/* Sets below[PATH_BYTES] to the path of a visible subfolder with this name; else false. */
static bool is_subfolder(const struct listing *l, const char *root, const char *path,
                         const char *name, char *below)
{
    char full[PATH_BYTES];
    struct stat st;
    int n = snprintf(below, PATH_BYTES, "%s%s%s", path, *path ? "/" : "", name);
    return name[0] != '.' && n < PATH_BYTES &&
           dataset_resolve(l->roots, root, below, full, NULL) == RESOLVED_FOUND &&
           stat(full, &st) == 0 && S_ISDIR(st.st_mode);
}

static void list_folder(struct listing *l, const char *root, const char *path, int levels)
{
    char dir[PATH_BYTES], below[PATH_BYTES];
    if (snprintf(dir, sizeof(dir), "%s/%s", root, path) >= (int)sizeof(dir)) {
        return;
    }
    bool classes = list_formats(l, dir, path);
    struct dirent **names;
    int n = levels > 0 && !classes ? scandir(dir, &names, NULL, alphasort) : 0;
    for (int i = 0; i < n; i++) {
        if (is_subfolder(l, root, path, names[i]->d_name, below)) {
            list_folder(l, root, below, levels - 1);
        }
        free(names[i]);
    }
    if (n > 0) {
        free(names);
    }
}

json_t *dataset_list(const char *roots, const char *cache, double seconds, struct err *e)
{
    struct listing l = {.roots = roots,
                        .list = json_array(),
                        .seen = json_object(),
                        .until = clock_now() + seconds};
    char root[PATH_BYTES];
    const char *rest = roots;
    l.known = cache ? jsonx_load(cache, CACHE_BYTES, NULL) : NULL;
    while (l.list && l.seen && dataset_next_root(&rest, root)) {
        list_folder(&l, root, "", LEVELS);
    }
    if (cache && l.seen && !json_equal(l.known, l.seen)) {
        size_t n = 0;
        char *text = jsonx_dump(l.seen, true, &n);
        if (text) {
            proc_write_file(cache, text, n, 0644, NULL); /* without a cache it only takes longer */
        }
        free(text);
    }
    json_decref(l.known);
    json_decref(l.seen);
    if (!l.list) {
        err_set(e, ERR_MEMORY, "cannot list the data sets: memory ran out");
    }
    return l.list;
}

char *dataset_nearest(const char *roots, const char *path)
{
    struct listing l = {.roots = roots, .paths_only = true, .list = json_array()};
    const char *names[NAMES_MOST], *rest = roots;
    char root[PATH_BYTES];
    int n = 0;
    size_t i;
    json_t *one;
    while (l.list && dataset_next_root(&rest, root)) {
        list_folder(&l, root, "", LEVELS);
    }
    json_array_foreach(l.list, i, one) {
        if (n < NAMES_MOST) {
            names[n++] = json_string_value(one);
        }
    }
    const char *nearest = jsonx_nearest(path, names, n);
    char *out = nearest ? strdup(nearest) : NULL;
    json_decref(l.list);
    return out;
}
