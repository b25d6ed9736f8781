/* See size.h. */
#include "common/text/size.h"

#include <stdlib.h>
#include <string.h>

bool size_parse(const char *text, int64_t *bytes)
{
    static const char units[] = "KMGT";
    char *end = NULL;
    double size = strtod(text, &end), factor = 1;
    const char *unit = end != text && *end ? strchr(units, *end) : NULL;
    for (const char *u = units; unit && u <= unit; u++) {
        factor *= 1024;
    }
    if (end == text || (unit ? end[1] : *end) != 0 || !(size * factor >= 1) ||
        size * factor > 9e18) {
        return false;
    }
    *bytes = (int64_t)(size * factor);
    return true;
}
