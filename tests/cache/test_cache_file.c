/* The format of a file of the cache: what is written is read, and nothing else is. */
#include "base/unit.h"

#include <stdlib.h>

#include "cache/file.h"

static struct cache_file_header header;
static char file[512];
static struct str key = STR_INIT("GETlocalhost/a");

/* A whole small file; gives its length. */
static size_t make(struct str body)
{
    const struct cache_meta meta = {
        .valid_until = 1000,
        .stale_while_updating_until = 2000,
        .stale_if_error_until = 3000,
        .date = 900,
        .last_modified = -1,
        .etag = STR("\"tag\""),
        .vary = STR("accept-encoding"),
        .variant = {1, 2, 3},
        .status = 203,
        .head = STR("the head"),
        .body_size = body.len,
    };

    cache_file_header_make(&header, key, &meta);
    header.content_version = 77;
    cache_file_texts_write(&header, key, &meta, file + header.texts_offset);
    memcpy(file + header.body_offset, body.data, body.len);
    cache_file_header_seal(&header);
    memcpy(file, &header, sizeof(header));
    return header.body_offset + body.len;
}

static enum cache_file_result read_header(size_t len, uint64_t size)
{
    return cache_file_header_read((struct str){file, len}, size, &header);
}

static struct str texts(void)
{
    return (struct str){file + header.texts_offset, cache_file_texts_size(&header)};
}

static void what_was_written_is_read(void **state)
{
    size_t size = make(STR("body"));
    struct cache_meta meta;
    struct str read_key;

    assert_int_equal(read_header(size, size), CACHE_FILE_GOOD);
    assert_int_equal(cache_file_size(&header), size);
    assert_int_equal(header.content_version, 77);
    assert_int_equal(cache_file_texts_read(&header, texts(), &read_key, &meta), CACHE_FILE_GOOD);
    assert_str(read_key, key);
    assert_int_equal(meta.valid_until, 1000);
    assert_int_equal(meta.stale_while_updating_until, 2000);
    assert_int_equal(meta.stale_if_error_until, 3000);
    assert_int_equal(meta.date, 900);
    assert_int_equal(meta.last_modified, -1);
    assert_int_equal(meta.status, 203);
    assert_int_equal(meta.body_size, 4);
    assert_int_equal(meta.variant[2], 3);
    assert_text(meta.etag, "\"tag\"");
    assert_text(meta.vary, "accept-encoding");
    assert_text(meta.head, "the head");
    assert_text(((struct str){file + header.body_offset, 4}), "body");
}

static void every_damaged_byte_of_header_and_texts_is_noticed(void **state)
{
    size_t size = make(STR("body"));
    struct cache_meta meta;
    struct str read_key;

    for (size_t i = 0; i < size - 4; i++) {
        if (i == sizeof(header)) {
            i = header.texts_offset; /* the line between them is for people */
        }
        file[i] ^= 0x10;
        if (read_header(size, size) == CACHE_FILE_GOOD) {
            assert_true(i >= header.texts_offset);
            assert_int_equal(cache_file_texts_read(&header, texts(), &read_key, &meta),
                             CACHE_FILE_BROKEN);
        } else {
            assert_true(i < sizeof(header));
        }
        file[i] ^= 0x10;
    }
    assert_int_equal(read_header(size, size), CACHE_FILE_GOOD);
}

static void a_cut_file_is_too_short(void **state)
{
    size_t size = make(STR("body"));

    for (size_t len = 0; len < sizeof(header); len++) {
        assert_int_equal(read_header(len, 0), CACHE_FILE_SHORT);
    }
    assert_int_equal(read_header(size - 1, size - 1), CACHE_FILE_SHORT);
    assert_int_equal(read_header(size, size + 1), CACHE_FILE_SHORT);
}

static void other_formats_and_versions_are_foreign(void **state)
{
    size_t size = make(STR("body"));

    file[8]++;
    assert_int_equal(read_header(size, size), CACHE_FILE_FOREIGN);
    memset(file, 5, sizeof(file));
    assert_int_equal(read_header(size, size), CACHE_FILE_FOREIGN);
}

/* A header with a right checksum may still lie. */
static void sizes_that_cannot_be_are_refused(void **state)
{
    size_t size = make(STR("body"));
    struct cache_file_header good = header;

    header.body_size = UINT64_MAX;
    cache_file_header_seal(&header);
    memcpy(file, &header, sizeof(header));
    assert_int_equal(read_header(size, 0), CACHE_FILE_BROKEN);

    header = good;
    header.key_length = UINT32_MAX;
    cache_file_header_seal(&header);
    memcpy(file, &header, sizeof(header));
    assert_int_equal(read_header(size, 0), CACHE_FILE_BROKEN);

    header = good;
    header.body_offset = header.texts_offset + 1;
    cache_file_header_seal(&header);
    memcpy(file, &header, sizeof(header));
    assert_int_equal(read_header(size, 0), CACHE_FILE_BROKEN);

    header = good;
    header.texts_offset = 8;
    cache_file_header_seal(&header);
    memcpy(file, &header, sizeof(header));
    assert_int_equal(read_header(size, 0), CACHE_FILE_BROKEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(every_damaged_byte_of_header_and_texts_is_noticed),
        cmocka_unit_test(a_cut_file_is_too_short),
        cmocka_unit_test(other_formats_and_versions_are_foreign),
        cmocka_unit_test(sizes_that_cannot_be_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
