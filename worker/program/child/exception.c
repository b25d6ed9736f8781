/* A traceback as Python prints it, with the innermost call last:
 *
 *     Traceback (most recent call last):
 *       File "/tmp/run/train.py", line 12, in <module>
 *         loss.backward(wrong)
 *       File "/usr/lib/python3/dist-packages/torch/_tensor.py", line 52, in backward
 *     RuntimeError: grad can be implicitly created only for scalar outputs
 *
 * People look for the last line of their own file, so libraries' lines count only where there are
 * no others. An exception may have several lines, and nothing tells the last of them from what is
 * printed afterwards. Indented lines go on, as in
 *
 *     RuntimeError: Error(s) in loading state_dict for Net:
 *     <tab>Missing key(s) in state_dict: "fc.weight".
 *
 * and so do all lines behind one that ends with a colon.
 *
 * A fault in a library ends a program without an exception. Python's faulthandler, which ranks
 * switch on, then prints the stacks of all threads, with the innermost call first:
 *
 *     Fatal Python error: Segmentation fault
 *     Current thread 0x00007fb8e54abb80 (most recent call first):
 *       File "/usr/lib/python3/dist-packages/torch/nn/functional.py", line 52 in linear
 *       File "/tmp/run/train.py", line 12 in <module>
 *     Extension modules: numpy._core._multiarray_umath, … */
#include "worker/program/child/exception.h"

#include <stdio.h>
#include <string.h>

static bool of_a_library(const char *path)
{
    return strstr(path, "-packages/") || strstr(path, "/lib/python") || path[0] == '<' ||
           strstr(path, "/python/evenstep/"); /* ours, which the service has elsewhere */
}

/* The innermost is the last one, or, after a fatal error, the first one. */
static void read_frame(struct exception *x, const char *line)
{
    char path[512];
    int number = 0;
    if (sscanf(line, " File \"%511[^\"]\", line %d", path, &number) == 2 &&
        (!x->own || (!x->fatal && !of_a_library(path)))) {
        const char *slash = strrchr(path, '/');
        x->own = !of_a_library(path);
        x->line = number;
        snprintf(x->file, sizeof(x->file), "%s", slash ? slash + 1 : path);
    }
}

static void begin_said(struct exception *x, const char *line)
{
    size_t n = (size_t)snprintf(x->said, sizeof(x->said), "%s", line);
    x->open = false;
    x->announces = n < sizeof(x->said) && x->said[n - 1] == ':';
    x->lines = 1;
}

/* Of those that go on only the first is told: it says what a line with a colon announces. */
static void go_on(struct exception *x, const char *line)
{
    size_t n = strlen(x->said);
    if (x->announces && x->lines == 1) {
        snprintf(x->said + n, sizeof(x->said) - n, " %s", line + strspn(line, " \t"));
    }
    x->lines++;
}

void exception_read(struct exception *x, const char *line)
{
    static const char fatal[] = "Fatal Python error: ", current[] = "Current thread ",
                      stack[] = "Stack (";
    if (strcmp(line, "Traceback (most recent call last):") == 0) {
        *x = (struct exception){.open = true};
    } else if (strncmp(line, fatal, sizeof(fatal) - 1) == 0) {
        *x = (struct exception){.fatal = true};
        begin_said(x, line);
    } else if (x->fatal) { /* nothing follows it but stacks and names of modules */
        bool begins = line[0] != ' ';
        x->open = begins ? strncmp(line, current, sizeof(current) - 1) == 0 ||
                               strncmp(line, stack, sizeof(stack) - 1) == 0
                         : x->open;
        if (x->open) {
            read_frame(x, line);
        }
    } else if (x->open && line[0] == ' ') {
        read_frame(x, line);
    } else if (x->open && line[0]) {
        begin_said(x, line);
    } else if (x->said[0] && (x->announces || line[0] == ' ' || line[0] == '\t')) {
        go_on(x, line);
    } else {
        x->said[0] = '\0';
    }
}

void exception_note(const struct exception *x, struct program_end *out)
{
    bool placed = x->said[0] && x->own && x->line > 0;
    snprintf(out->exception, sizeof(out->exception), "%s", x->said);
    snprintf(out->file, sizeof(out->file), "%s", placed ? x->file : "");
    out->line = placed ? x->line : 0;
}
