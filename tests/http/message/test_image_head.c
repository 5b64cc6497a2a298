/* Tests of what heads of images say. */
#include "base/unit.h"

#include <stdlib.h>

#include "http/message/image_head.h"

static struct image_head head;

/* A copy of exactly that length, so that a byte read too far is seen. */
static bool parse(struct str bytes)
{
    char *copy = malloc(bytes.len == 0 ? 1 : bytes.len);

    memcpy(copy, bytes.data, bytes.len);
    bool is_good = image_head_parse((struct str){copy, bytes.len}, &head);
    free(copy);
    return is_good;
}

static void assert_size(struct str bytes, enum image_kind kind, uint32_t width, uint32_t height)
{
    assert_true(parse(bytes));
    assert_int_equal(head.kind, kind);
    assert_int_equal(head.width, width);
    assert_int_equal(head.height, height);
    for (size_t len = 0; len < bytes.len; len++) {
        parse(str_head(bytes, len)); /* reads nothing beyond, whatever it says */
    }
}

#define JPEG_SOI "\xff\xd8"
#define JPEG_APP "\xff\xe0\x00\x04xx"
#define JPEG_SOF(marker) "\xff" marker "\x00\x0b\x08\x01\x02\x03\x04"
#define PNG_HEAD "\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
#define RIFF(kind) "RIFF\0\0\0\0WEBPVP8" kind "\0\0\0\0"

static void sizes(void **state)
{
    assert_size(STR(JPEG_SOI JPEG_APP JPEG_SOF("\xc0")), IMAGE_JPEG, 0x304, 0x102);
    assert_size(STR(JPEG_SOI "\xff\xff\xff" JPEG_SOF("\xc2")), IMAGE_JPEG, 0x304, 0x102);
    assert_size(STR(JPEG_SOI "\xff\xc4\x00\x02" JPEG_SOF("\xc1")), IMAGE_JPEG, 0x304, 0x102);
    assert_size(STR("GIF89a\x02\x01\x04\x03"), IMAGE_GIF, 0x102, 0x304);
    assert_size(STR("GIF87a\x01\0\x02\0"), IMAGE_GIF, 1, 2);
    assert_size(STR(PNG_HEAD "\0\1\0\2\0\0\0\3"), IMAGE_PNG, 0x10002, 3);
    assert_size(STR(RIFF(" ") "\0\0\0\x9d\x01\x2a\x02\xc1\x03\x00"), IMAGE_WEBP, 0x102, 3);
    assert_size(STR(RIFF("L") "\x2f\x03\x40\x01\x00"), IMAGE_WEBP, 4, 6);
    assert_size(STR(RIFF("X") "\0\0\0\0\x01\x00\x00\x02\x00\x00"), IMAGE_WEBP, 2, 3);
}

static void what_is_no_image(void **state)
{
    const struct str rows[] = {
        STR(""),
        STR("x"),
        STR("GIF88a\1\0\1\0"),
        STR("GIF89a\1\0\1"),
        STR("GIF89a\0\0\1\0"),
        STR(JPEG_SOI),
        STR(JPEG_SOI "\xff"),
        STR(JPEG_SOI "x\xc0\x00\x0b\x08\x01\x02\x03\x04"),
        STR(JPEG_SOI "\xff\xe0\x00\x01" JPEG_SOF("\xc0")),
        STR(JPEG_SOI "\xff\x00\x00\x02" JPEG_SOF("\xc0")),
        STR(JPEG_SOI "\xff\xe0\xff\xff" JPEG_SOF("\xc0")),
        STR(JPEG_SOI "\xff\xda\x00\x02" JPEG_SOF("\xc0")),
        STR(JPEG_SOI "\xff\xd9" JPEG_SOF("\xc0")),
        STR(JPEG_SOI "\xff\xc0\x00\x07\x08\x01\x02\x03\x04"),
        STR(JPEG_SOI "\xff\xc0\x00\x0b\x08\x01\x02\x03"),
        STR(PNG_HEAD "\0\0\0\1\0\0\0"),
        STR(PNG_HEAD "\0\0\0\0\0\0\0\1"),
        STR("\x89PNG\r\n\x1a\n\0\0\0\rIDAT\0\0\0\1\0\0\0\1"),
        STR(RIFF("P") "\0\0\0\x9d\x01\x2a\x02\xc1\x03\x00"),
        STR(RIFF(" ") "\0\0\0\x9d\x01\x2a\x02\xc1\x03"),
        STR(RIFF(" ") "\0\0\0\x9d\x01\x2b\x02\xc1\x03\x00"),
        STR(RIFF("L") "\x2e\x03\x40\x01\x00"),
        STR(RIFF("X") "\0\0\0\0\x01\x00\x00\x02\x00"),
        STR("RIFF\0\0\0\0WAVEVP8 "),
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        if (parse(rows[i])) {
            fail_msg("row %zu was taken for an image of %u x %u", i, head.width, head.height);
        }
    }
}

static void scans(void **state)
{
    assert_int_equal(image_scans(IMAGE_JPEG, STR("")), 0);
    assert_int_equal(image_scans(IMAGE_JPEG, STR("\xff\xda\xff\xff\xda\xda\xff")), 2);
    assert_int_equal(image_scans(IMAGE_PNG, STR("\xff\xda")), 0);
}

static void names(void **state)
{
    assert_text(image_kind_name(IMAGE_JPEG), "jpeg");
    assert_text(image_media_type(IMAGE_WEBP), "image/webp");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),
        cmocka_unit_test(what_is_no_image),
        cmocka_unit_test(scans),
        cmocka_unit_test(names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
