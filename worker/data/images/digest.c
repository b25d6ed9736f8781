/* The digest of a data set of pictures: SHA-256 over names, sizes and bytes of its files, in the
 * order of parts, classes and names. Reads the headers on the way, so that opening the data set
 * finds a file that cannot be decoded at all. */
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/hex.h"
#include "worker/data/images/pictures.h"

static int digest_file(EVP_MD_CTX *md, struct album *a, int64_t i, struct err *e)
{
    const char *name = folders_name(album_folders(a), i);
    struct image_head head;
    size_t n = 0;
    uint8_t *bytes = album_file(a, i, &n, e);
    int rc = bytes ? image_head(bytes, n, name, &head, e) : -(int)e->code;
    if (rc == 0) {
        uint64_t size = n;
        EVP_DigestUpdate(md, name, strlen(name) + 1);
        EVP_DigestUpdate(md, &size, sizeof(size));
        EVP_DigestUpdate(md, bytes, n);
    }
    free(bytes);
    return rc;
}

int album_digest(struct album *a, char out[65], struct err *e)
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    int rc = md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1
                 ? 0
                 : err_set(e, ERR_MEMORY, "cannot read pictures: memory ran out");
    for (int64_t i = 0; rc == 0 && i < album_folders(a)->n; i++) {
        rc = digest_file(md, a, i, e);
    }
    if (rc == 0) {
        EVP_DigestFinal_ex(md, sum, NULL);
        hex_of(out, sum, 32);
    }
    EVP_MD_CTX_free(md);
    return rc;
}

int pictures_digest(const struct pictures *p, char out[65], struct err *e)
{
    return album_digest(pictures_album(p), out, e);
}
