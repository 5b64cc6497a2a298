/*
 * Fuzz target: a moov box and what tells of fragments: a moof box, a sidx, a mfra. The first bytes
 * say what is wanted, and which of them the rest is behind the moov box. The new moov box reads as
 * one without samples; a fragment that is moved stays one.
 */
#include <stdlib.h>

#include "http/modules/content/mp4/fragments.h"

static void must(bool is_so)
{
    if (!is_so) {
        abort();
    }
}

static void check_moov(struct str moov)
{
    struct buf out = {0};
    struct fragments fragments;
    struct box box;

    fragments_put_moov(&out, moov, 1234);
    struct str rest = buf_str(&out);
    must(box_next(&rest, &box) && box.type == BOX('m', 'o', 'o', 'v') && rest.len == 0);
    must(out.len <= moov.len + 4096 + moov.len / 8 * 24);
    const char *problem = fragments_read(&fragments, box.data);
    must(problem != NULL || !fragments.has_samples);
    buf_free(&out);
}

static void check_moof(struct fragments *fragments, struct str moof, uint64_t time)
{
    const struct fragment_move move = {.time = time, .offset = (uint64_t) 0 - time};
    struct fragments again = *fragments;
    struct fragment before, after;
    char *copy = malloc(moof.len + 1);

    must(copy != NULL);
    str_put(copy, moof);
    bool is_good = fragment_read(fragments, moof, &before);
    fragment_move(&again, copy, moof.len, &move);
    must(fragment_read(&again, (struct str){copy, moof.len}, &after) == is_good);
    must(!is_good || (before.has_main == after.has_main && before.is_key == after.is_key));
    free(copy);
}

static void check_index(const struct fragments *fragments, struct str bytes, bool is_access,
                        uint8_t start, uint8_t end)
{
    struct fragment_choice choice = {.start_ms = start * 100U,
                                     .end_ms = end == 0 ? CUT_TO_THE_END : (start + end) * 100U};
    uint64_t behind;

    bool is_good = is_access ? fragments_by_access(fragments, bytes, &choice)
                             : fragments_by_segments(bytes, 1000, &choice, &behind);
    must(!is_good || choice.has_first);
    must(choice.last == 0 || choice.last > choice.first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fragments fragments;
    struct str bytes = {(const char *) data + 5, size - 5};

    if (size < 5 || size > 65536) {
        return 0;
    }
    size_t moov_size = (size_t) data[0] << 8 | data[1];
    struct str moov = str_head(bytes, moov_size);
    check_moov(moov);
    if (fragments_read(&fragments, moov) != NULL) {
        return 0;
    }
    bytes = str_skip(bytes, moov.len);
    switch (data[2] % 3) {
    case 0:
        check_moof(&fragments, bytes, data[3]);
        break;
    default:
        check_index(&fragments, bytes, data[2] % 3 == 1, data[3], data[4]);
    }
    return 0;
}
