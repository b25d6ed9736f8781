/* See print.h. */
#include "worker/tasks/print.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/json/jsonx.h"

bool print_answer(json_t *answer)
{
    char *text = jsonx_dump(answer, false, NULL);
    bool printed = text && puts(text) >= 0 && fflush(stdout) == 0;
    free(text);
    json_decref(answer);
    return printed;
}
