/* See fetch.h. */
#include "cli/jobs/fetch.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/json/jsonx.h"
#include "common/process/proc.h"

/* Downloads an address to a file, which appears once it is complete. */
static int download(struct session *s, const char *path, const char *file)
{
    char part[PATH_MAX + 8];
    struct err *e = &s->err;
    snprintf(part, sizeof part, "%s.part", file);
    FILE *out = fopen(part, "wbe");
    if (!out) {
        return err_errno(e, ERR_IO, "cannot write '%.300s'", part);
    }
    int rc = client_download(&s->client, path, out, e);
    if (fclose(out) != 0 && rc == 0) {
        rc = err_errno(e, ERR_IO, "cannot write '%.300s'", part);
    }
    if (rc == 0 && rename(part, file) < 0) {
        rc = err_errno(e, ERR_IO, "cannot write '%.300s'", file);
    }
    if (rc < 0) {
        unlink(part);
    }
    return rc;
}

/* Does the path stay beneath the folder? It must consist of plain names, none of which begins with
 * a dot. */
static bool is_beneath(const char *name)
{
    if (strlen(name) > 255) {
        return false;
    }
    for (const char *part = name; part; part = strchr(part, '/')) {
        part += part != name;
        if (strcspn(part, "/") == 0 || part[0] == '.') {
            return false;
        }
    }
    return true;
}

/* The artifact's address: each part of its name escaped, slashes as they are. */
static void address_of(struct buf *out, const char *id, const char *name)
{
    char part[256];
    buf_addf(out, "/api/v1/jobs/%.64s/artifacts", id);
    for (const char *at = name; at; at = strchr(at, '/')) {
        at += at != name;
        snprintf(part, sizeof part, "%.*s", (int)strcspn(at, "/"), at);
        buf_adds(out, "/");
        client_add_escaped(out, part);
    }
}

/* Makes the folder of a file. */
static int make_folder_of(const char *file, struct err *e)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", file);
    *strrchr(folder, '/') = '\0';
    return *folder ? proc_mkdirs(folder, 0755, e) : 0;
}

int fetch_one(struct session *s, const char *id, const char *folder, const char *name,
              json_t *files)
{
    char file[PATH_MAX];
    struct buf path;
    struct err *e = &s->err;
    if (!is_beneath(name)) {
        return err_set(e, ERR_IO, "an artifact cannot be named '%.100s'", name);
    }
    if (snprintf(file, sizeof file, "%s/%s", folder, name) >= (int)sizeof file) {
        return err_set(e, ERR_IO, "the path of the artifact '%.100s' is too long", name);
    }
    client_address(&path);
    address_of(&path, id, name);
    int rc = make_folder_of(file, e);
    if (rc >= 0) {
        rc = download(s, path.data, file);
    }
    buf_release(&path);
    if (rc == 0 && files) {
        json_array_append_new(files, jsonx_text(file));
    }
    return rc;
}

int fetch_all(struct session *s, const char *id, const char *folder, json_t *files)
{
    char path[256];
    size_t i;
    json_t *one;
    int rc = proc_mkdirs(folder, 0755, &s->err), n = 0;
    snprintf(path, sizeof path, "/api/v1/jobs/%.64s/artifacts", id);
    json_t *answer = rc < 0 ? NULL : client_call(&s->client, "GET", path, NULL, &s->err);
    json_array_foreach(json_object_get(answer, "artifacts"), i, one) {
        const char *name = json_string_value(json_object_get(one, "name"));
        if (rc == 0 && (rc = fetch_one(s, id, folder, name ? name : "", files)) == 0) {
            n++;
        }
    }
    rc = rc == 0 && !answer ? -(int)s->err.code : rc;
    json_decref(answer);
    return rc < 0 ? rc : n;
}
