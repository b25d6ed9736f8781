/* A traceback as Python prints it, with the innermost call last:
 *
 *     Traceback (most recent call last):
 *       File "/tmp/run/train.py", line 12, in <module>
 *         loss.backward(wrong)
 *       File "/usr/lib/python3/dist-packages/torch/_tensor.py", line 52, in backward
 *     RuntimeError: grad can be implicitly created only for scalar outputs
 *
 * People look for the last line of their own file, so libraries' lines count only where there are
 * no others. */
#include "worker/program/child/exception.h"

#include <stdio.h>
#include <string.h>

static bool of_a_library(const char *path)
{
    return strstr(path, "-packages/") || strstr(path, "/lib/python") || path[0] == '<';
}

static void read_frame(struct exception *x, const char *line)
{
    char path[512];
    int number = 0;
    if (sscanf(line, " File \"%511[^\"]\", line %d", path, &number) == 2 &&
        (!x->own || !of_a_library(path))) {
        const char *slash = strrchr(path, '/');
        x->own = !of_a_library(path);
        x->line = number;
        snprintf(x->file, sizeof(x->file), "%s", slash ? slash + 1 : path);
    }
}

void exception_read(struct exception *x, const char *line)
{
    x->said[0] = '\0';
    if (strcmp(line, "Traceback (most recent call last):") == 0) {
        *x = (struct exception){.open = true};
    } else if (x->open && line[0] == ' ') {
        read_frame(x, line);
    } else if (x->open) {
        x->open = false;
        snprintf(x->said, sizeof(x->said), "%s", line);
    }
}

const char *exception_print(const struct exception *x, char *out, size_t bytes)
{
    bool placed = x->said[0] && x->own && x->line > 0;
    if (placed) {
        snprintf(out, bytes, "%s (%s, line %d)", x->said, x->file, x->line);
    } else {
        snprintf(out, bytes, "%s", x->said);
    }
    return out;
}
