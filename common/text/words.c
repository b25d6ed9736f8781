/* See words.h. */
#include "common/text/words.h"

#include <string.h>

bool words_next(const char **at, char *word, size_t size)
{
    if (!**at) {
        return false;
    }
    size_t n = strcspn(*at, ","), kept = n < size ? n : size - 1;
    memcpy(word, *at, kept);
    word[kept] = '\0';
    *at += n;
    *at += **at == ',';
    return true;
}
