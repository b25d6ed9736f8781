/* NumPy arrays: x.npy, y.npy, test_x.npy and test_y.npy are the input's parts. */
#include "tests/fuzz/fuzz_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"x.npy", "y.npy", "test_x.npy", "test_y.npy"};
    static struct data_spec spec = {.format = CAT_FORMAT_NPY, .path = "."};
    for (int i = 0; i < 4; i++) {
        fuzz_part_file(names[i], &data, &size);
    }
    fuzz_dataset(&spec);
    return 0;
}
