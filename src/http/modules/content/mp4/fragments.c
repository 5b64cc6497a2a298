/* Fragmented videos: which fragments belong to a part, and how a response describes them. */
#include "http/modules/content/mp4/fragments.h"

enum {
    TFHD_BASE_OFFSET = 0x1, /* flags of a tfhd box: which fields it has */
    TFHD_DESCRIPTION = 0x2,
    TFHD_DURATION = 0x8,
    TFHD_SIZE = 0x10,
    TFHD_FLAGS = 0x20,
    TRUN_OFFSET = 0x1, /* flags of a trun box */
    TRUN_FIRST_FLAGS = 0x4,
    TRUN_DURATIONS = 0x100,
    TRUN_SIZES = 0x200,
    TRUN_FLAGS = 0x400,
    TRUN_SHIFTS = 0x800,
    IS_NO_KEY = 0x10000, /* flag of a sample: not a key frame */
    DEPTH_MAX = 4,       /* nesting of containers that are examined: trak, mdia, minf, stbl */
};

static uint32_t flags_of(const struct box *box)
{
    return box_get32(box->data.data) & 0xffffff;
}

static bool is_large(const struct box *box)
{
    return *box->data.data != 0;
}

static uint64_t ms_of(uint64_t time, uint32_t units)
{
    uint64_t seconds = time / units;

    return seconds > (uint64_t) 1 << 50 ? UINT64_MAX / 2
                                        : seconds * 1000 + time % units * 1000 / units;
}

/* ---- the moov box ---- */

static const char *read_track(struct fragments *fragments, struct str trak)
{
    struct fragment_track *track = &fragments->tracks[fragments->count];
    struct box tkhd, mdia, mdhd, hdlr, minf, stbl, stsz;

    box_find(trak, BOX('t', 'k', 'h', 'd'), &tkhd);
    box_find(trak, BOX('m', 'd', 'i', 'a'), &mdia);
    box_find(mdia.data, BOX('m', 'd', 'h', 'd'), &mdhd);
    box_find(mdia.data, BOX('h', 'd', 'l', 'r'), &hdlr);
    box_find(mdia.data, BOX('m', 'i', 'n', 'f'), &minf);
    box_find(minf.data, BOX('s', 't', 'b', 'l'), &stbl);
    box_find(stbl.data, BOX('s', 't', 's', 'z'), &stsz);
    if (!box_has(&tkhd, 24, 32) || !box_has(&mdhd, 20, 32)) {
        return "a track without tkhd or mdhd box";
    }
    track->number = box_get32(tkhd.data.data + (is_large(&tkhd) ? 20 : 12));
    track->units = box_get32(mdhd.data.data + (is_large(&mdhd) ? 20 : 12));
    if (track->units == 0) {
        return "a track without a unit of time";
    }
    if (stsz.data.len >= 12 && box_get32(stsz.data.data + 8) != 0) {
        fragments->has_samples = true;
    }
    bool has_pictures =
        hdlr.data.len >= 12 && box_get32(hdlr.data.data + 8) == BOX('v', 'i', 'd', 'e');
    if (has_pictures && fragments->main == CUT_TRACKS_MAX) {
        fragments->main = fragments->count;
    }
    fragments->count++;
    return NULL;
}

static struct fragment_track *track_of(struct fragments *fragments, uint32_t number)
{
    for (unsigned i = 0; i < fragments->count; i++) {
        if (fragments->tracks[i].number == number) {
            return &fragments->tracks[i];
        }
    }
    return NULL;
}

static void read_defaults(struct fragments *fragments, struct str mvex)
{
    struct box box;

    while (box_next(&mvex, &box)) {
        struct fragment_track *track = box.type == BOX('t', 'r', 'e', 'x') && box.data.len >= 24
                                           ? track_of(fragments, box_get32(box.data.data + 4))
                                           : NULL;

        if (track != NULL) {
            track->duration = box_get32(box.data.data + 12);
            track->flags = box_get32(box.data.data + 20);
        }
    }
}

const char *fragments_read(struct fragments *fragments, struct str moov)
{
    struct str rest = moov;
    struct box box;

    *fragments = (struct fragments){.main = CUT_TRACKS_MAX};
    while (box_next(&rest, &box)) {
        if (box.type != BOX('t', 'r', 'a', 'k')) {
            continue;
        }
        if (fragments->count == CUT_TRACKS_MAX) {
            return "too many tracks";
        }
        const char *problem = read_track(fragments, box.data);
        if (problem != NULL) {
            return problem;
        }
    }
    if (fragments->count == 0) {
        return "no tracks";
    }
    if (fragments->main == CUT_TRACKS_MAX) {
        fragments->main = 0;
    }
    box_find(moov, BOX('m', 'v', 'e', 'x'), &box);
    read_defaults(fragments, box.data);
    return NULL;
}

/* ---- a moof box ---- */

/* The beginning of a traf box. */
struct run_head {
    struct fragment_track *track;
    uint32_t duration, flags; /* default of samples without their own */
    char *base;               /* the base data offset; NULL: there is none */
};

/* False: it is malformed, or the moov box does not have the track. */
static bool read_run_head(struct fragments *fragments, struct str traf, struct run_head *head)
{
    struct box tfhd;

    if (!box_find(traf, BOX('t', 'f', 'h', 'd'), &tfhd) || tfhd.data.len < 8) {
        return false;
    }
    uint32_t flags = flags_of(&tfhd);
    size_t at = 8, size = 8 + (flags & TFHD_BASE_OFFSET ? 8 : 0) +
                          (flags & TFHD_DESCRIPTION ? 4 : 0) + (flags & TFHD_DURATION ? 4 : 0) +
                          (flags & TFHD_SIZE ? 4 : 0) + (flags & TFHD_FLAGS ? 4 : 0);
    head->track = track_of(fragments, box_get32(tfhd.data.data + 4));
    if (head->track == NULL || tfhd.data.len < size) {
        return false;
    }
    head->base = flags & TFHD_BASE_OFFSET ? (char *) tfhd.data.data + at : NULL;
    at += (flags & TFHD_BASE_OFFSET ? 8 : 0) + (flags & TFHD_DESCRIPTION ? 4 : 0);
    head->duration = flags & TFHD_DURATION ? box_get32(tfhd.data.data + at) : head->track->duration;
    head->flags = flags & TFHD_FLAGS ? box_get32(tfhd.data.data + size - 4) : head->track->flags;
    return true;
}

/* Adds up the durations and samples of a trun box; *is_key becomes that of its first sample, if it
 * has one. False: malformed. */
static bool read_run(const struct box *trun, const struct run_head *head, uint64_t *duration,
                     uint32_t *count, bool *is_key)
{
    if (trun->data.len < 8) {
        return false;
    }
    uint32_t flags = flags_of(trun);
    size_t skip = 8 + (flags & TRUN_OFFSET ? 4 : 0) + (flags & TRUN_FIRST_FLAGS ? 4 : 0);
    size_t item = 4 * (size_t) __builtin_popcount(
                          flags & (TRUN_DURATIONS | TRUN_SIZES | TRUN_FLAGS | TRUN_SHIFTS));
    *count = box_get32(trun->data.data + 4);
    if (trun->data.len < skip || (item != 0 && *count > (trun->data.len - skip) / item)) {
        return false;
    }
    const char *items = trun->data.data + skip;
    if (flags & TRUN_DURATIONS) {
        for (uint32_t i = 0; i < *count; i++) {
            *duration += box_get32(items + i * item);
        }
    } else {
        *duration += (uint64_t) *count * head->duration;
    }
    if (*count != 0) {
        size_t behind = (flags & TRUN_DURATIONS ? 4 : 0) + (flags & TRUN_SIZES ? 4 : 0);
        uint32_t first = flags & TRUN_FIRST_FLAGS ? box_get32(items - 4)
                         : flags & TRUN_FLAGS     ? box_get32(items + behind)
                                                  : head->flags;
        *is_key = (first & IS_NO_KEY) == 0;
    }
    return true;
}

/* Reads the samples of a traf box: all its trun boxes. */
static bool read_runs(struct str traf, const struct run_head *head, struct fragment *out,
                      uint64_t *duration)
{
    struct box box;

    while (box_next(&traf, &box)) {
        bool is_key = false;
        uint32_t count;

        if (box.type != BOX('t', 'r', 'u', 'n')) {
            continue;
        }
        if (!read_run(&box, head, duration, &count, &is_key)) {
            return false;
        }
        if (count != 0 && !out->has_main) {
            out->has_main = true;
            out->is_key = is_key;
        }
    }
    return true;
}

static bool find_time(struct str traf, struct box *tfdt)
{
    return box_find(traf, BOX('t', 'f', 'd', 't'), tfdt) && box_has(tfdt, 8, 12);
}

static uint64_t mp4_fragments_time_of(const struct box *tfdt)
{
    return is_large(tfdt) ? box_get64(tfdt->data.data + 4) : box_get32(tfdt->data.data + 4);
}

bool fragment_read(struct fragments *fragments, struct str moof, struct fragment *out)
{
    const struct fragment_track *main = &fragments->tracks[fragments->main];
    struct run_head head;
    struct box box, tfdt;

    *out = (struct fragment){0};
    while (box_next(&moof, &box)) {
        uint64_t duration = 0;

        if (box.type != BOX('t', 'r', 'a', 'f') || !read_run_head(fragments, box.data, &head) ||
            head.track != main) {
            continue;
        }
        bool was_there = out->has_main;
        if (!read_runs(box.data, &head, out, &duration)) {
            return false;
        }
        uint64_t time =
            find_time(box.data, &tfdt) ? mp4_fragments_time_of(&tfdt) : head.track->time;
        head.track->time = time + duration;
        if (!was_there) {
            out->time = time;
            out->time_ms = ms_of(time, main->units);
        }
        out->end_ms = ms_of(head.track->time, main->units);
    }
    return true;
}

void fragment_move(const struct fragments *fragments, char *moof, size_t size,
                   const struct fragment_move *move)
{
    struct fragments known = *fragments;
    uint32_t units = known.tracks[known.main].units;
    struct str rest = {moof, size};
    struct run_head head;
    struct box box, tfdt;

    while (box_next(&rest, &box)) {
        if (box.type != BOX('t', 'r', 'a', 'f') || !read_run_head(&known, box.data, &head)) {
            continue;
        }
        if (head.base != NULL) {
            box_set64(head.base, box_get64(head.base) + move->offset);
        }
        if (!find_time(box.data, &tfdt)) {
            continue;
        }
        uint64_t earlier = (uint64_t) ((unsigned __int128) move->time * head.track->units / units);
        uint64_t time =
            mp4_fragments_time_of(&tfdt) > earlier ? mp4_fragments_time_of(&tfdt) - earlier : 0;
        char *at = (char *) tfdt.data.data + 4;
        if (is_large(&tfdt)) {
            box_set64(at, time);
        } else {
            box_set32(at, (uint32_t) time);
        }
    }
}

/* ---- the choice of fragments ---- */

void fragment_choose(struct fragment_choice *choice, uint64_t at, uint64_t at_ms, bool is_key)
{
    if (!choice->has_first || (is_key && at_ms <= choice->start_ms && choice->last == 0)) {
        choice->has_first = true;
        choice->first = at;
        choice->first_ms = at_ms;
        return;
    }
    if (choice->last == 0 && at > choice->first && at_ms >= choice->end_ms) {
        choice->last = at;
        choice->last_ms = at_ms;
    }
}

/* ---- indexes ---- */

/* The items of a sidx box. */
struct segments {
    const char *items; /* 12 bytes each: type and size, duration, access point */
    uint32_t count;
    uint32_t units;
    uint64_t time;  /* of the first item */
    uint64_t first; /* offset of the first item in the file */
};

static bool read_segments(struct str sidx, uint64_t anchor, struct segments *out)
{
    size_t head = sidx.len != 0 && *sidx.data != 0 ? 32 : 24;

    if (sidx.len < head) {
        return false;
    }
    out->units = box_get32(sidx.data + 8);
    out->time = head == 32 ? box_get64(sidx.data + 12) : box_get32(sidx.data + 12);
    out->first = anchor + (head == 32 ? box_get64(sidx.data + 20) : box_get32(sidx.data + 16));
    out->count = box_get32(sidx.data + head - 4) & 0xffff;
    out->items = sidx.data + head;
    return out->units != 0 && out->count != 0 && out->count <= (sidx.len - head) / 12;
}

bool fragments_by_segments(struct str sidx, uint64_t anchor, struct fragment_choice *choice,
                           uint64_t *end)
{
    struct segments segments;
    bool has_keys = false;

    if (!read_segments(sidx, anchor, &segments)) {
        return false;
    }
    for (uint32_t i = 0; i < segments.count; i++) {
        has_keys = has_keys || (box_get32(segments.items + 12 * (size_t) i + 8) >> 31) != 0;
    }
    uint64_t at = segments.first, time = segments.time;
    for (uint32_t i = 0; i < segments.count; i++) {
        const char *item = segments.items + 12 * (size_t) i;
        bool is_key = !has_keys || (box_get32(item + 8) >> 31) != 0;

        fragment_choose(choice, at, ms_of(time, segments.units), is_key);
        at += box_get32(item) & 0x7fffffff;
        time += box_get32(item + 4);
    }
    *end = at;
    choice->last_ms = choice->last != 0 ? choice->last_ms : ms_of(time, segments.units);
    return true;
}

/* Reads a tfra box: every entry of this track is a point; it is a key frame if the numbers are
 * those of the first sample. */
static bool choose_by_table(struct str tfra, const struct fragment_track *track,
                            struct fragment_choice *choice)
{
    if (tfra.len < 16 || box_get32(tfra.data + 4) != track->number) {
        return false;
    }
    size_t wide = *tfra.data != 0 ? 8 : 4;
    uint32_t lengths = box_get32(tfra.data + 8), count = box_get32(tfra.data + 12);
    size_t traf = (lengths >> 4 & 3) + 1, trun = (lengths >> 2 & 3) + 1, sample = (lengths & 3) + 1;
    size_t item = 2 * wide + traf + trun + sample;
    if (count > (tfra.len - 16) / item) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        const char *at = tfra.data + 16 + i * item;
        uint64_t time = wide == 8 ? box_get64(at) : box_get32(at);
        uint64_t offset = wide == 8 ? box_get64(at + 8) : box_get32(at + 4);
        /* The numbers of the run and of the sample, big-endian; both are 1 for the first sample. */
        const char *numbers = at + 2 * wide + traf;
        bool is_first = true;
        for (size_t k = 0; k < trun + sample; k++) {
            is_first = is_first && numbers[k] == (k == trun - 1 || k == trun + sample - 1);
        }
        fragment_choose(choice, offset, ms_of(time, track->units), is_first);
    }
    return count != 0;
}

bool fragments_by_access(const struct fragments *fragments, struct str mfra,
                         struct fragment_choice *choice)
{
    struct box box;

    while (box_next(&mfra, &box)) {
        if (box.type == BOX('t', 'f', 'r', 'a') &&
            choose_by_table(box.data, &fragments->tracks[fragments->main], choice)) {
            return true;
        }
    }
    return false;
}

/* ---- the new moov box ---- */

/* Writes the first `size` bytes of a box as zeros: a table without items. */
static void put_empty(struct buf *out, const struct box *box, size_t size)
{
    size_t begin = box_begin(out, box->type);

    for (size_t i = 0; i < size / 4; i++) {
        box_put32(out, 0);
    }
    box_end(out, begin);
}

/* Copies a box, with a duration of 0 (unknown). */
static void put_timeless(struct buf *out, const struct box *box, size_t small, size_t large)
{
    size_t begin = out->len, head = box->whole.len - box->data.len;

    buf_append(out, box->whole);
    if (box_has(box, small + 4, large + 8)) {
        char *at = out->data + begin + head + (is_large(box) ? large : small);
        memset(at, 0, is_large(box) ? 8 : 4);
    }
}

static void put_mehd(struct buf *out, uint64_t duration)
{
    if (duration != 0) {
        size_t begin = box_begin(out, BOX('m', 'e', 'h', 'd'));

        box_put32(out, 1 << 24);
        box_put64(out, duration);
        box_end(out, begin);
    }
}

/* The state of copying the moov box. */
struct copying {
    struct buf *out;
    uint64_t duration; /* of the video, in its units; 0: unknown */
    unsigned depth;    /* nesting of the current box */
};

static void put_boxes(struct copying *copying, struct str boxes);

static void put_container(struct copying *copying, const struct box *box)
{
    if (copying->depth > DEPTH_MAX) {
        buf_append(copying->out, box->whole);
        return;
    }
    size_t begin = box_begin(copying->out, box->type);
    if (box->type == BOX('m', 'v', 'e', 'x')) {
        put_mehd(copying->out, copying->duration);
    }
    put_boxes(copying, box->data);
    box_end(copying->out, begin);
}

static void put_box(struct copying *copying, const struct box *box)
{
    struct buf *out = copying->out;

    switch (box->type) {
    case BOX('t', 'r', 'a', 'k'):
    case BOX('m', 'd', 'i', 'a'):
    case BOX('m', 'i', 'n', 'f'):
    case BOX('s', 't', 'b', 'l'):
    case BOX('m', 'v', 'e', 'x'):
        put_container(copying, box);
        return;
    case BOX('m', 'v', 'h', 'd'):
    case BOX('m', 'd', 'h', 'd'):
        put_timeless(out, box, 16, 24);
        return;
    case BOX('t', 'k', 'h', 'd'):
        put_timeless(out, box, 20, 28);
        return;
    case BOX('s', 't', 't', 's'):
    case BOX('s', 't', 's', 'c'):
    case BOX('s', 't', 'c', 'o'):
    case BOX('c', 'o', '6', '4'):
        put_empty(out, box, 8);
        return;
    case BOX('s', 't', 's', 'z'):
        put_empty(out, box, 12);
        return;
    case BOX('c', 't', 't', 's'): /* tables of samples that are omitted */
    case BOX('s', 't', 's', 's'):
    case BOX('s', 't', 'p', 's'):
    case BOX('s', 'd', 't', 'p'):
    case BOX('s', 'b', 'g', 'p'):
    case BOX('s', 'u', 'b', 's'):
    case BOX('s', 'a', 'i', 'z'):
    case BOX('s', 'a', 'i', 'o'):
    case BOX('m', 'e', 'h', 'd'):
        return;
    default:
        buf_append(out, box->whole);
    }
}

static void put_boxes(struct copying *copying, struct str boxes)
{
    struct box box;

    copying->depth++;
    while (box_next(&boxes, &box)) {
        put_box(copying, &box);
    }
    copying->depth--;
}

void fragments_put_moov(struct buf *out, struct str moov, uint64_t duration_ms)
{
    size_t begin = box_begin(out, BOX('m', 'o', 'o', 'v'));
    struct box mvhd;

    box_find(moov, BOX('m', 'v', 'h', 'd'), &mvhd);
    uint32_t units =
        box_has(&mvhd, 20, 32) ? box_get32(mvhd.data.data + (is_large(&mvhd) ? 20 : 12)) : 0;
    struct copying copying = {.out = out,
                              .duration =
                                  (uint64_t) ((unsigned __int128) duration_ms * units / 1000)};
    put_boxes(&copying, moov);
    box_end(out, begin);
}
