/* See joined.h. */
#include "job/documents/ranks/joined.h"

enum { BATCH_MOST = 1 << 24 };
static const double epochs_most = 1e6;

json_t *joined_json(const struct joined *j)
{
    json_t *out = json_pack("{s:I, s:i, s:I, s:i, s:f}", "parameters", (json_int_t)j->parameters,
                            "tensors", j->tensors, "samples", (json_int_t)j->samples,
                            "global_batch", j->global_batch, "epochs", j->epochs);
    json_object_set_new(out, "framework", jsonx_text(j->framework));
    json_object_set_new(out, "optimizer", jsonx_text(j->optimizer));
    return out;
}

void joined_parse(const struct document *d, struct joined *out)
{
    document_sentence(d, "framework", out->framework, sizeof out->framework);
    document_sentence(d, "optimizer", out->optimizer, sizeof out->optimizer);
    out->parameters = document_integer(d, "parameters", 1, INT64_MAX);
    out->tensors = (int)document_integer(d, "tensors", 1, INT32_MAX);
    out->samples = document_integer(d, "samples", 1, INT64_MAX);
    out->global_batch = (int)document_integer(d, "global_batch", 1, BATCH_MOST);
    out->epochs = document_number(d, "epochs", 0, epochs_most);
}
