/* Which paths of a program's folder are left out: see ignore.h. */
#include "cli/run/ignore.h"

#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/process/proc.h"

enum { FILE_BYTES = 1 << 20 };

static const char *const always[] = {".git", "__pycache__/", "*.pyc", "evenstep-data/"};

void ignore_add(struct ignore *g, const char *pattern)
{
    char **grown = realloc(g->patterns, sizeof *grown * (size_t)(g->n + 1)),
         *copy = strdup(pattern);
    BUG_ON(!grown || !copy);
    g->patterns = grown;
    g->patterns[g->n++] = copy;
}

static int add_line(struct ignore *g, char *line, const char *path, struct err *e)
{
    size_t n = strlen(line);
    while (n > 0 && strchr(" \t\r", line[n - 1])) {
        line[--n] = '\0';
    }
    if (line[0] == '!') {
        return err_set(e, ERR_INVALID, "%s: '%.60s': patterns that begin with ! are not supported",
                       path, line);
    }
    if (n > 0 && line[0] != '#') {
        ignore_add(g, line);
    }
    return 0;
}

int ignore_init(struct ignore *g, const char *folder, struct err *e)
{
    char path[PATH_MAX + 32];
    struct stat st;
    int rc = 0;
    memset(g, 0, sizeof *g);
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) {
        ignore_add(g, always[i]);
    }
    snprintf(path, sizeof path, "%s/.evenstepignore", folder);
    if (stat(path, &st) != 0) {
        return 0;
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(e, ERR_INVALID, "'%.300s' is not a file", path);
    }
    char *text = proc_read_file(path, FILE_BYTES, NULL, e), *rest = NULL;
    if (!text) {
        return -(int)e->code;
    }
    for (char *line = strtok_r(text, "\n", &rest); line && rc == 0;
         line = strtok_r(NULL, "\n", &rest)) {
        rc = add_line(g, line, path, e);
    }
    free(text);
    return rc;
}

void ignore_release(struct ignore *g)
{
    for (int i = 0; i < g->n; i++) {
        free(g->patterns[i]);
    }
    free(g->patterns);
    memset(g, 0, sizeof *g);
}

/* path[0..n) itself, without the folders that it is in. */
static bool matches_one(const char *pattern, const char *path, size_t n, bool is_folder)
{
    char part[PATH_MAX], glob[PATH_MAX];
    size_t length = strlen(pattern);
    bool only_folders = length > 1 && pattern[length - 1] == '/';
    if (only_folders && !is_folder) {
        return false;
    }
    snprintf(glob, sizeof glob, "%.*s", (int)(length - (only_folders ? 1 : 0)), pattern);
    snprintf(part, sizeof part, "%.*s", (int)n, path);
    if (strchr(glob, '/')) {
        return fnmatch(glob + (glob[0] == '/' ? 1 : 0), part, FNM_PATHNAME | FNM_NOESCAPE) == 0;
    }
    const char *slash = strrchr(part, '/');
    return fnmatch(glob, slash ? slash + 1 : part, FNM_NOESCAPE) == 0;
}

bool ignore_matches(const struct ignore *g, const char *path, bool is_folder)
{
    for (size_t n = strcspn(path, "/");; n += 1 + strcspn(path + n + 1, "/")) {
        bool last = path[n] == '\0';
        for (int i = 0; i < g->n; i++) {
            if (matches_one(g->patterns[i], path, n, last ? is_folder : true)) {
                return true;
            }
        }
        if (last) {
            return false;
        }
    }
}
