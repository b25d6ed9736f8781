/* A job's artifacts: see artifacts.h. */
#include "cli/run/artifacts.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/proc.h"

/* A path in an address: everything but letters, digits and -._ in hexadecimal. */
static void escape(const char *name, char *out, size_t size)
{
    size_t n = 0;
    for (const unsigned char *p = (const unsigned char *)name; *p && n + 4 < size; p++) {
        n += (size_t)snprintf(out + n, size - n, isalnum(*p) || strchr("-._", *p) ? "%c" : "%%%02X",
                              *p);
    }
    out[n] = '\0';
}

static int fetch(struct session *s, const char *id, const char *folder, const char *name)
{
    char path[1024], escaped[768], file[PATH_MAX], part[PATH_MAX + 8];
    struct err *e = &s->err;
    if (!*name || name[0] == '.' || strchr(name, '/') || strlen(name) > 255) {
        return err_set(e, ERR_DATA, "an artifact cannot be named '%.100s'", name);
    }
    escape(name, escaped, sizeof escaped);
    snprintf(path, sizeof path, "/api/v1/jobs/%.64s/artifacts/%s", id, escaped);
    if (snprintf(file, sizeof file, "%s/%s", folder, name) >= (int)sizeof file) {
        return err_set(e, ERR_IO, "the path of the artifact '%.100s' is too long", name);
    }
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

int artifacts_fetch(struct session *s, const char *id, const char *folder)
{
    char path[256];
    size_t i;
    json_t *one;
    int rc = proc_mkdirs(folder, 0755, &s->err), n = 0;
    snprintf(path, sizeof path, "/api/v1/jobs/%.64s/artifacts", id);
    json_t *answer = rc < 0 ? NULL : client_call(&s->client, "GET", path, NULL, &s->err);
    json_array_foreach(json_object_get(answer, "artifacts"), i, one) {
        const char *name = json_string_value(json_object_get(one, "name"));
        if (rc == 0 && (rc = fetch(s, id, folder, name ? name : "")) == 0) {
            n++;
        }
    }
    rc = rc == 0 && !answer ? -(int)s->err.code : rc;
    json_decref(answer);
    return rc < 0 ? rc : n;
}
