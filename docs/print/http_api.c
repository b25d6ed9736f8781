/* Prints the part of docs/http-api.md that is made from the table of routes (http/routes.c) and the
 * names of the documents (http/openapi/schemas.c). docs/generate puts it into the page.
 */
#include <stdio.h>

#include "common/text/buf.h"
#include "docs/print/fold.h"
#include "http/openapi/openapi.h"

int main(void)
{
    struct buf text;
    buf_init(&text, 4 << 20);
    openapi_markdown(&text);
    putchar('\n');
    fold_print(text.data, stdout);
    int rc = fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
    buf_release(&text);
    return rc;
}
