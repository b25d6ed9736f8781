/* Pictures: the first byte chooses the form of a sample, the rest is the file, JPEG or PNG. Its
 * head is read first; what is refused there no decoder may take, and what is decoded is read to its
 * last value. */
#include "tests/fuzz/fuzz.h"

#include "worker/data/images/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct image_form forms[] = {{8, 8, IMAGE_COLOUR, false},
                                              {8, 8, IMAGE_GREY, false},
                                              {16, 5, IMAGE_COLOUR, true},
                                              {64, 64, IMAGE_GREY, true}};
    const struct image_form *form = &forms[size ? data[0] & 3 : 0];
    struct image_head head;
    struct err e = {0};
    data += size > 0;
    size -= size > 0;
    uint8_t *to = malloc(image_form_bytes(form));
    int told = image_head(data, size, "x", &head, &e);
    fuzz_error(told, &e);
    err_clear(&e);
    int rc = to ? image_read(data, size, "x", form, to, &e) : -1;
    if (to) {
        fuzz_error(rc, &e);
    }
    BUG_ON(rc >= 0 && told < 0);
    BUG_ON(told >= 0 && (int64_t)head.height * head.width > IMAGE_PIXELS);
    if (rc >= 0) {
        fuzz_read(to, image_form_bytes(form));
    }
    free(to);
    return 0;
}
