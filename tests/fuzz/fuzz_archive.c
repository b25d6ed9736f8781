/* Archives of programs, as they are uploaded: read, and unpacked into a folder in memory. What is
 * taken has a digest and lies in the folder; no entry leads out of it. */
#include "tests/fuzz/fuzz.h"

#include "common/archive/archive.h"
#include "common/process/proc.h"

/* Checksums are made right first, or hardly an input would get behind its first header. */
static void mend(uint8_t *bytes, size_t size)
{
    for (size_t at = 0; at + 512 <= size; at += 512) {
        uint8_t *h = bytes + at;
        unsigned sum = 0;
        if (memcmp(h + 257, "ustar", 5) != 0) {
            continue;
        }
        memset(h + 148, ' ', 8);
        for (int i = 0; i < 512; i++) {
            sum += h[i];
        }
        snprintf((char *)h + 148, 8, "%06o", sum);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char into[256];
    struct archive a;
    struct jsonx_problems problems = {0};
    struct err e = {0};
    if (size == 0) {
        return 0;
    }
    uint8_t *copy = malloc(size);
    BUG_ON(!copy);
    memcpy(copy, data, size);
    mend(copy, size);
    snprintf(into, sizeof into, "%s/into", fuzz_folder());
    FILE *f = fmemopen(copy, size, "rb");
    BUG_ON(!f);
    int rc = archive_read(f, into, ARCHIVE_PROGRAM_FILES, &a, &problems, &e);
    fuzz_error(rc, &e);
    BUG_ON((rc == 0 && problems.count == 0) != (a.digest[0] != '\0'));
    BUG_ON(a.digest[0] && a.files == 0);
    if (a.manifest) {
        fuzz_read(a.manifest, strlen(a.manifest));
    }
    fclose(f);
    archive_release(&a);
    jsonx_problems_release(&problems);
    proc_remove_tree(into, NULL);
    free(copy);
    return 0;
}
