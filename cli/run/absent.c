/* Files that a program did not find on its node: see absent.h. */
#include "cli/run/absent.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/columns.h"

bool absent_named(const json_t *job, char *out, size_t bytes)
{
    static const char begin[] = "FileNotFoundError: [Errno 2] No such file or directory: '";
    const char *said = json_string_value(column_get(job, "error.program.exception")),
               *name = said && strncmp(said, begin, sizeof begin - 1) == 0 ? said + sizeof begin - 1
                                                                           : "";
    size_t n = strcspn(name, "'");
    bool whole = n > 0 && name[n] == '\'' && n < bytes;
    snprintf(out, bytes, "%.*s", whole ? (int)n : 0, name);
    return whole;
}

void absent_hint(const char *name, const char *folder, struct err *e)
{
    char there[2 * PATH_MAX];
    snprintf(there, sizeof there, "%s/%s", folder, name);
    if (access(name, F_OK) == 0 || (name[0] != '/' && access(there, F_OK) == 0)) {
        err_hint(
            e,
            "'%.80s' is here, and was not sent: only the program's folder is, without what git "
            "ignores. Data are opened by a path that each node has, such as one beneath "
            "$EVENSTEP_DATA",
            name);
    }
}
