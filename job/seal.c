/* See seal.h. */
#include "job/seal.h"

void seal_of_rows(const struct sign_key *rank, struct sign_key *out)
{
    sign_derive(rank, "rows", "", out);
}

void seal_of_host(const struct sign_key *attempt, const char *host, struct sign_key *out)
{
    sign_derive(attempt, "host", host, out);
}

void seal_wrap(const struct sign_key *host_key, const char *nonce, struct sign_key *key)
{
    struct sign_key pad;
    sign_derive(host_key, "seal", nonce, &pad);
    for (int i = 0; i < SIGN_KEY; i++) {
        key->bytes[i] ^= pad.bytes[i];
    }
}
