/* `evenstep`: the service (`evenstep serve`) and the command line that talks to one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/status.h"

/* A full disk is noticed when the last of the answer is written, or never. */
static int check_written(int status)
{
    errno = 0;
    bool lost = fflush(stdout) != 0;
    if (!lost && !ferror(stdout)) {
        return status;
    }
    fprintf(stderr, "evenstep: cannot write the answer%s%s\n", errno ? ": " : "",
            errno ? strerror(errno) : "");
    return status == STATUS_DONE ? STATUS_NOT_WRITTEN : status;
}

int main(int argc, char **argv)
{
    return check_written(commands_main(argc, argv));
}
