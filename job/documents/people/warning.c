/* See warning.h. */
#include "job/documents/people/warning.h"

#include <stdarg.h>

json_t *warning_json(const char *code, const char *pointer, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    json_t *message = json_vsprintf(format, args);
    va_end(args);
    return json_pack("{s:s, s:s, s:o}", "code", code, "pointer", pointer, "message", message);
}
