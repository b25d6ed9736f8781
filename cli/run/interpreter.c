/* See interpreter.h. */
#include "cli/run/interpreter.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool interpreter_is(const char *file)
{
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    return strncmp(name, "python", 6) == 0 && strspn(name + 6, "0123456789.") == strlen(name + 6) &&
           (slash || access(file, F_OK) != 0);
}

bool interpreter_is_shell(const char *file)
{
    static const char *const shells[] = {"sh", "bash", "dash", "zsh"};
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    bool one = false;
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        one = one || strcmp(name, shells[i]) == 0;
    }
    return one && (slash || access(file, F_OK) != 0);
}

char **interpreter_take(int *argc, int *first, char **argv)
{
    static char option[] = "--python";
    char **list = calloc((size_t)*argc + 2, sizeof *list);
    bool taken = list && *first + 1 < *argc && interpreter_is(argv[*first]);
    int n = 0, before = *first - 1;
    for (int i = 0; list && i < *argc; i++) {
        if (taken && i == before && strcmp(argv[i], "--") == 0) {
            continue; /* one more option follows it */
        }
        if (taken && i == *first) {
            list[n++] = option;
        }
        list[n++] = argv[i];
    }
    *first += n - *argc + (taken ? 1 : 0);
    *argc = n;
    return list;
}
