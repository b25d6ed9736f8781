/* CIFAR: the first byte says what the rest is: a file of CIFAR-10 records, one of CIFAR-100
 * records, or either's archive (tar, packed or not). */
#include "tests/fuzz/fuzz_data.h"

enum { PICTURE = 3072 };

static void remove_files(void)
{
    static const char *const names[] = {"data_batch_1.bin", "train.bin", "cifar-10-binary.tar",
                                        "cifar-100-binary.tar"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", fuzz_folder(), names[i]);
        unlink(path);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned char record[2 + PICTURE] = {1, 1};
    static struct data_spec spec = {.path = "."};
    int kind = size ? data[0] & 3 : 0;
    spec.format = kind & 1 ? CAT_FORMAT_CIFAR_100 : CAT_FORMAT_CIFAR_10;
    spec.coarse = size && (data[0] & 4);
    data += size > 0;
    size -= size > 0;
    remove_files();
    if (kind == 0) {
        char name[32];
        for (int i = 2; i <= 5; i++) {
            snprintf(name, sizeof name, "data_batch_%d.bin", i);
            fuzz_file(name, record, 1 + PICTURE);
        }
        fuzz_file("test_batch.bin", record, 1 + PICTURE);
        fuzz_file("data_batch_1.bin", data, size);
    } else if (kind == 1) {
        fuzz_file("test.bin", record, 2 + PICTURE);
        fuzz_file("train.bin", data, size);
    } else {
        fuzz_file(kind == 2 ? "cifar-10-binary.tar" : "cifar-100-binary.tar", data, size);
    }
    fuzz_dataset(&spec);
    return 0;
}
