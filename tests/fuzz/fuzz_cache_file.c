/* Fuzzes the reader of the cache's files: any bytes, and good ones with anything changed. */
#include <stdlib.h>

#include "base/checksum.h"
#include "cache/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Texts of a header that was taken lie where it says, or are refused. */
static void read_texts(const struct cache_file_header *header, const char *bytes, size_t size)
{
    size_t length = cache_file_texts_size(header);
    struct cache_meta meta;
    struct str key;

    if (header->texts_offset > size || length > size - header->texts_offset) {
        return;
    }
    struct str texts = {bytes + header->texts_offset, length};
    if (cache_file_texts_read(header, texts, &key, &meta) != CACHE_FILE_GOOD) {
        return;
    }
    size_t sum = key.len + meta.etag.len + meta.vary.len + meta.head.len;
    if (sum != length || key.data < bytes || meta.head.data + meta.head.len > bytes + size) {
        abort();
    }
}

static void read_file(char *bytes, size_t size)
{
    struct cache_file_header header;
    uint64_t sizes[] = {0, size};

    for (int i = 0; i < 2; i++) {
        if (cache_file_header_read((struct str){bytes, size}, sizes[i], &header) ==
            CACHE_FILE_GOOD) {
            if (sizes[i] != 0 && cache_file_size(&header) != sizes[i]) {
                abort();
            }
            read_texts(&header, bytes, size);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* A copy of its own, so that a byte read too far is seen. */
    char *bytes = malloc(size == 0 ? 1 : size);
    struct cache_file_header header;

    if (bytes == NULL) {
        return 0;
    }
    if (size != 0) {
        memcpy(bytes, data, size);
    }
    read_file(bytes, size);
    /* The same with what no fuzzer guesses: magic, version and checksums that are right. */
    if (size >= sizeof(header)) {
        memcpy(&header, bytes, sizeof(header));
        header.magic = CACHE_FILE_MAGIC;
        header.version = CACHE_FILE_VERSION;
        header.header_size = sizeof(header);
        size_t length = cache_file_texts_size(&header);
        if (header.texts_offset <= size && length <= size - header.texts_offset) {
            header.texts_crc = crc32_of((struct str){bytes + header.texts_offset, length});
        }
        cache_file_header_seal(&header);
        memcpy(bytes, &header, sizeof(header));
        read_file(bytes, size);
    }
    free(bytes);
    return 0;
}
