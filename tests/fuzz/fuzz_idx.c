/* IDX files, packed or not: training images and labels are the input's parts, the test files are
 * good ones of 2 x 2 pixels. */
#include "tests/fuzz/fuzz_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned char images[] = {0, 0, 8, 3, 0, 0, 0, 1, 0, 0,
                                           0, 2, 0, 0, 0, 2, 1, 2, 3, 4},
                               labels[] = {0, 0, 8, 1, 0, 0, 0, 1, 1};
    static struct data_spec spec = {.format = CAT_FORMAT_IDX, .path = "."};
    fuzz_file("t10k-images-idx3-ubyte", images, sizeof images);
    fuzz_file("t10k-labels-idx1-ubyte", labels, sizeof labels);
    fuzz_part_file("train-images-idx3-ubyte", &data, &size);
    fuzz_part_file("train-labels-idx1-ubyte", &data, &size);
    fuzz_dataset(&spec);
    return 0;
}
