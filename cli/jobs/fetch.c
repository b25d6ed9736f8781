/* See fetch.h. */
#include "cli/jobs/fetch.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/proc.h"

/* The address's content as a file, which is not there before it is whole. */
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

int fetch_one(struct session *s, const char *id, const char *folder, const char *name,
              json_t *files)
{
    char path[1024], escaped[768], file[PATH_MAX];
    struct err *e = &s->err;
    if (!*name || name[0] == '.' || strchr(name, '/') || strlen(name) > 255) {
        return err_set(e, ERR_DATA, "an artifact cannot be named '%.100s'", name);
    }
    snprintf(path, sizeof path, "/api/v1/jobs/%.64s/artifacts/%s", id,
             client_escape(escaped, sizeof escaped, name));
    if (snprintf(file, sizeof file, "%s/%s", folder, name) >= (int)sizeof file) {
        return err_set(e, ERR_IO, "the path of the artifact '%.100s' is too long", name);
    }
    int rc = proc_mkdirs(folder, 0755, e);
    if (rc < 0 || (rc = download(s, path, file)) < 0) {
        return rc;
    }
    if (files) {
        json_array_append_new(files, json_string(file));
    }
    return 0;
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
