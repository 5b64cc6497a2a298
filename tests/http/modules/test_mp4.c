/* Tests of boxes and of cutting a video: a small one is made, cut, and looked at. */
#include "base/unit.h"

#include "http/modules/content/mp4/cut.h"

static struct buf video; /* contents of a moov box */

/* A full box of 32-bit numbers. */
static void put_numbers(uint32_t type, const uint32_t *numbers, unsigned count)
{
    size_t begin = box_begin(&video, type);

    box_put32(&video, 0);
    for (unsigned i = 0; i < count; i++) {
        box_put32(&video, numbers[i]);
    }
    box_end(&video, begin);
}

#define PUT(a, b, c, d, ...)                                                                       \
    put_numbers(BOX(a, b, c, d), (const uint32_t[]){__VA_ARGS__},                                  \
                sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

/* Ten samples of 100 ms, of 10 to 19 bytes, in chunks of 4 at 1000, 2000 and 3000; key frames are
 * 1, 5 and 9. */
static int set_up(void **state)
{
    video.len = 0;
    PUT('m', 'v', 'h', 'd', 0, 0, 1000, 1000);
    size_t trak = box_begin(&video, BOX('t', 'r', 'a', 'k'));
    PUT('t', 'k', 'h', 'd', 0, 0, 1, 0, 1000, 0, 0, 0);
    size_t mdia = box_begin(&video, BOX('m', 'd', 'i', 'a'));
    PUT('m', 'd', 'h', 'd', 0, 0, 100, 100, 0);
    size_t minf = box_begin(&video, BOX('m', 'i', 'n', 'f'));
    PUT('v', 'm', 'h', 'd', 7);
    size_t stbl = box_begin(&video, BOX('s', 't', 'b', 'l'));
    PUT('s', 't', 's', 'd', 0);
    PUT('s', 't', 't', 's', 2, 4, 10, 6, 10);
    PUT('s', 't', 's', 's', 3, 1, 5, 9);
    PUT('s', 't', 's', 'c', 2, 1, 4, 1, 3, 2, 1);
    PUT('s', 't', 's', 'z', 0, 10, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19);
    PUT('s', 't', 'c', 'o', 3, 1000, 2000, 3000);
    box_end(&video, stbl);
    box_end(&video, minf);
    box_end(&video, mdia);
    box_end(&video, trak);
    return 0;
}

static int tear_down(void **state)
{
    buf_free(&video);
    return 0;
}

/* A box below others. */
static struct box find(struct str boxes, const uint32_t *path, unsigned depth)
{
    struct box box = {0};

    for (unsigned i = 0; i < depth; i++) {
        assert_true(box_find(boxes, path[i], &box));
        boxes = box.data;
    }
    return box;
}

/* Do the numbers of a table of the cut video agree? */
static void assert_numbers(const struct cut *cut, uint32_t type, const uint32_t *numbers,
                           unsigned count)
{
    const uint32_t path[] = {BOX('m', 'o', 'o', 'v'), BOX('t', 'r', 'a', 'k'),
                             BOX('m', 'd', 'i', 'a'), BOX('m', 'i', 'n', 'f'),
                             BOX('s', 't', 'b', 'l'), type};
    struct box box = find(buf_str(&cut->moov), path, 6);

    assert_int_equal(box.data.len, 4 + 4 * count);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(box_get32(box.data.data + 4 + 4 * (size_t) i), numbers[i]);
    }
}

#define ASSERT_NUMBERS(cut, a, b, c, d, ...)                                                       \
    assert_numbers(cut, BOX(a, b, c, d), (const uint32_t[]){__VA_ARGS__},                          \
                   sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void heads_of_boxes(void **state)
{
    struct box_head head;

    assert_true(box_head_read(STR("\0\0\0\10free"), 8, &head));
    assert_int_equal(head.size, 8);
    assert_false(box_head_read(STR("\0\0\0\11free"), 8, &head));
    assert_false(box_head_read(STR("\0\0\0\7free"), 8, &head));
    assert_false(box_head_read(STR("\0\0\0\10fre"), 8, &head));
    assert_true(box_head_read(STR("\0\0\0\0free"), 99, &head));
    assert_int_equal(head.size, 99);
    assert_true(box_head_read(STR("\0\0\0\1free\0\0\0\0\0\0\0\20"), 16, &head));
    assert_int_equal(head.length, 16);
    assert_false(box_head_read(STR("\0\0\0\1free\0\0\0\0\0\0\0\17"), 16, &head));
    assert_false(box_head_read(STR("\0\0\0\1free\377\377\377\377\377\377\377\377"), 16, &head));
}

static void tables_end_with_their_box(void **state)
{
    struct box box = {.data = STR("\0\0\0\0\0\0\0\2abcdefgh")};
    struct box_table table;

    assert_true(box_table_read(&box, 4, 4, &table));
    assert_int_equal(table.count, 2);
    assert_false(box_table_read(&box, 4, 5, &table));
    assert_int_equal(table.count, 0);
    box.data.len = 7;
    assert_false(box_table_read(&box, 4, 4, &table));
}

static void whole_video(void **state)
{
    struct cut cut = {.end_ms = CUT_TO_THE_END, .file_size = 4000};

    assert_true(cut_video(&cut, buf_str(&video)));
    assert_int_equal(cut.first, 1000);
    assert_int_equal(cut.last, 3000 + 18 + 19);
    assert_int_equal(cut.duration, 1000);
    ASSERT_NUMBERS(&cut, 's', 't', 't', 's', 2, 4, 10, 6, 10);
    ASSERT_NUMBERS(&cut, 's', 't', 's', 'c', 2, 1, 4, 1, 3, 2, 1);
    cut_position(&cut, 50);
    ASSERT_NUMBERS(&cut, 's', 't', 'c', 'o', 3, 50, 1050, 2050);
    buf_free(&cut.moov);
}

static void part_that_begins_and_ends_inside_of_chunks(void **state)
{
    struct cut cut = {.start_ms = 250, .end_ms = 850, .file_size = 4000};

    assert_true(cut_video(&cut, buf_str(&video)));
    assert_int_equal(cut.first, 1000 + 10 + 11);
    assert_int_equal(cut.last, 3000 + 18);
    assert_int_equal(cut.duration, 700);
    ASSERT_NUMBERS(&cut, 's', 't', 't', 's', 2, 2, 10, 5, 10);
    ASSERT_NUMBERS(&cut, 's', 't', 's', 's', 2, 3, 7);
    ASSERT_NUMBERS(&cut, 's', 't', 's', 'c', 3, 1, 2, 1, 2, 4, 1, 3, 1, 1);
    ASSERT_NUMBERS(&cut, 's', 't', 's', 'z', 0, 7, 12, 13, 14, 15, 16, 17, 18);
    ASSERT_NUMBERS(&cut, 's', 't', 'c', 'o', 3, 1021, 2000, 3000);
    buf_free(&cut.moov);
}

static void key_frame_before_the_start(void **state)
{
    struct cut cut = {.start_ms = 650,
                      .end_ms = CUT_TO_THE_END,
                      .at_key_frame = true,
                      .file_size = 4000};
    const uint32_t path[] = {BOX('m', 'o', 'o', 'v'), BOX('t', 'r', 'a', 'k'),
                             BOX('e', 'd', 't', 's'), BOX('e', 'l', 's', 't')};

    assert_true(cut_video(&cut, buf_str(&video)));
    ASSERT_NUMBERS(&cut, 's', 't', 't', 's', 1, 6, 10);
    struct box list = find(buf_str(&cut.moov), path, 4);
    assert_int_equal(box_get64(list.data.data + 8), 350);
    assert_int_equal(box_get64(list.data.data + 16), 25);
    buf_free(&cut.moov);
}

static void large_offsets(void **state)
{
    struct cut cut = {.end_ms = CUT_TO_THE_END, .is_large = true, .file_size = 4000};

    assert_true(cut_video(&cut, buf_str(&video)));
    cut_position(&cut, (uint64_t) 5 << 32);
    ASSERT_NUMBERS(&cut, 'c', 'o', '6', '4', 3, 5, 0, 5, 1000, 5, 2000);
    buf_free(&cut.moov);
}

static void what_is_refused(void **state)
{
    struct cut late = {.start_ms = 1000, .end_ms = CUT_TO_THE_END, .file_size = 4000};
    assert_false(cut_video(&late, buf_str(&video)));
    assert_string_equal(late.problem, "no samples from there on");
    buf_free(&late.moov);

    struct cut beyond = {.end_ms = CUT_TO_THE_END, .file_size = 3036};
    assert_false(cut_video(&beyond, buf_str(&video)));
    assert_string_equal(beyond.problem, "a chunk beyond the end of the file");
    buf_free(&beyond.moov);

    for (size_t length = 0; length < video.len; length++) {
        struct cut cut = {.end_ms = CUT_TO_THE_END, .file_size = 4000};
        assert_false(cut_video(&cut, str_head(buf_str(&video), length)));
        assert_non_null(cut.problem);
        buf_free(&cut.moov);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_of_boxes),
        cmocka_unit_test(tables_end_with_their_box),
        cmocka_unit_test(whole_video),
        cmocka_unit_test(part_that_begins_and_ends_inside_of_chunks),
        cmocka_unit_test(key_frame_before_the_start),
        cmocka_unit_test(large_offsets),
        cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
