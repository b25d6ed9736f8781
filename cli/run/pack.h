/* A program's folder as one tar archive, as POST /api/v1/programs takes it. The same folder always
 * gives the same bytes, and so the same digest. */
#ifndef CLI_RUN_PACK_H
#define CLI_RUN_PACK_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

enum { PACK_BYTES_MOST = 64 << 20 };

struct pack {
    char *bytes; /* owned */
    size_t n, files;
    bool by_git; /* git said which files */
};

/* Packs what files.h says. main: the program's file, relative to the folder, which has to be among
 * them. leave_out: a folder that results go to and that is not packed where it is in this one, or
 * NULL. p needs pack_release either way. ERR_TOO_LARGE names the largest files. */
int pack_folder(struct pack *p, const char *folder, const char *main, const char *leave_out,
                struct err *e);
/* The file alone. */
int pack_file(struct pack *p, const char *folder, const char *main, struct err *e);
/* Is this word, in small or capital letters, in any of the files or of their names? */
bool pack_mentions(const struct pack *p, const char *word);
void pack_release(struct pack *p);

#endif
