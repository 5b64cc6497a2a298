/* Writes the new moov box: the tables of each track, cut to the selected samples. */
#include "http/modules/content/mp4/cut.h"

#include "http/modules/content/mp4/track.h"

static bool mp4_cut_fail(struct cut *cut, const char *problem)
{
    cut->problem = problem;
    return false;
}

/* ---- run-length tables: stts, ctts ---- */

/* Writes runs of samples, each with a value, cut to the selected samples. */
static void put_runs(struct buf *out, const struct box_table *runs, const struct track *track)
{
    size_t count_at = out->len;
    uint32_t count = 0;
    uint64_t sample = 0;

    box_put32(out, 0);
    for (uint32_t i = 0; i < runs->count && sample < track->end; i++) {
        const char *item = runs->items + 8 * (size_t) i;
        uint64_t next = sample + box_get32(item);
        uint64_t from = sample > track->start ? sample : track->start;
        uint64_t to = next < track->end ? next : track->end;

        if (from < to) {
            box_put32(out, (uint32_t) (to - from));
            box_put32(out, box_get32(item + 4));
            count++;
        }
        sample = next;
    }
    box_set32(out->data + count_at, count);
}

static void put_times(struct buf *out, const struct track *track)
{
    size_t begin = box_begin(out, BOX('s', 't', 't', 's'));

    box_put32(out, 0);
    put_runs(out, &track->times, track);
    box_end(out, begin);
    if (track->ctts.whole.data != NULL) {
        begin = box_begin(out, BOX('c', 't', 't', 's'));
        buf_append(out, str_head(track->ctts.data, 4));
        put_runs(out, &track->shifts, track);
        box_end(out, begin);
    }
}

/* ---- key frames, sizes ---- */

static void put_keys(struct buf *out, const struct track *track)
{
    if (!track->has_keys) {
        return;
    }
    size_t begin = box_begin(out, BOX('s', 't', 's', 's'));
    uint32_t count = 0;

    box_put32(out, 0);
    box_put32(out, 0);
    for (uint32_t i = 0; i < track->keys.count; i++) {
        uint32_t number = box_get32(track->keys.items + 4 * (size_t) i);
        if (number > track->start && number <= track->end) {
            box_put32(out, number - track->start);
            count++;
        }
    }
    box_set32(out->data + begin + BOX_HEAD + 4, count);
    box_end(out, begin);
}

static void put_sizes(struct buf *out, const struct track *track)
{
    size_t begin = box_begin(out, BOX('s', 't', 's', 'z'));
    uint32_t count = track->end - track->start;

    box_put32(out, 0);
    box_put32(out, track->size);
    box_put32(out, count);
    if (track->size == 0) {
        buf_append(out, (struct str){track->sizes.items + 4 * (size_t) track->start,
                                     4 * (size_t) count});
    }
    box_end(out, begin);
}

/* ---- chunks ---- */

/* An iterator over the chunks of a track that cuts each to the selected samples. */
struct chunk {
    uint32_t number; /* of the next chunk, from 0 on */
    uint32_t group;  /* its entry of stsc */
    uint64_t sample; /* its first sample */

    uint64_t offset;      /* of its selected bytes, in the file */
    uint64_t bytes;       /* of its selected samples */
    uint32_t count;       /* selected samples in it; 0 = none */
    uint32_t description; /* its sample description */
};

static uint64_t bytes_of(const struct track *track, uint64_t from, uint64_t to)
{
    uint64_t bytes = 0;

    if (track->size != 0) {
        return (to - from) * track->size;
    }
    for (; from < to; from++) {
        bytes += track_size_of(track, (uint32_t) from);
    }
    return bytes;
}

/* Advances to the next chunk. False: there are no more with selected samples, or none at all. */
static bool chunk_next(struct chunk *chunk, const struct track *track)
{
    if (chunk->number >= track->chunks.count || chunk->sample >= track->end ||
        track->groups.count == 0) {
        return false;
    }
    while (chunk->group + 1 < track->groups.count &&
           box_get32(track->groups.items + 12 * (size_t) (chunk->group + 1)) <= chunk->number + 1) {
        chunk->group++;
    }
    const char *group = track->groups.items + 12 * (size_t) chunk->group;
    const char *offset =
        track->chunks.items + (size_t) chunk->number * (track->has_large_chunks ? 8 : 4);
    uint64_t next = chunk->sample + box_get32(group + 4);
    uint64_t from = chunk->sample > track->start ? chunk->sample : track->start;
    uint64_t to = next < track->end ? next : track->end;

    chunk->count = from < to ? (uint32_t) (to - from) : 0;
    chunk->description = box_get32(group + 8);
    if (chunk->count != 0) {
        chunk->offset = (track->has_large_chunks ? box_get64(offset) : box_get32(offset)) +
                        bytes_of(track, chunk->sample, from);
        chunk->bytes = bytes_of(track, from, to);
    }
    chunk->sample = next;
    chunk->number++;
    return true;
}

static void put_groups(struct buf *out, const struct track *track)
{
    size_t begin = box_begin(out, BOX('s', 't', 's', 'c'));
    struct chunk chunk = {0};
    uint32_t number = 0;
    uint32_t groups = 0;
    uint32_t count = 0;
    uint32_t description = 0;

    box_put32(out, 0);
    box_put32(out, 0);
    while (chunk_next(&chunk, track)) {
        if (chunk.count == 0) {
            continue;
        }
        number++;
        if (chunk.count != count || chunk.description != description) {
            count = chunk.count;
            description = chunk.description;
            box_put32(out, number);
            box_put32(out, count);
            box_put32(out, description);
            groups++;
        }
    }
    box_set32(out->data + begin + BOX_HEAD + 4, groups);
    box_end(out, begin);
}

/* Writes the chunk offsets of the original file; cut_position changes them later. */
static bool put_chunks(struct cut *cut, const struct track *track)
{
    bool is_large = cut->is_large || track->has_large_chunks;
    size_t begin =
        box_begin(&cut->moov, is_large ? BOX('c', 'o', '6', '4') : BOX('s', 't', 'c', 'o'));
    struct cut_offsets *offsets = &cut->offsets[cut->tracks++];
    struct chunk chunk = {0};

    box_put32(&cut->moov, 0);
    box_put32(&cut->moov, 0);
    *offsets = (struct cut_offsets){.at = cut->moov.len, .is_large = is_large};
    while (chunk_next(&chunk, track)) {
        if (chunk.count == 0) {
            continue;
        }
        if (chunk.offset > cut->file_size || chunk.bytes > cut->file_size - chunk.offset) {
            return mp4_cut_fail(cut, "a chunk beyond the end of the file");
        }
        if (is_large) {
            box_put64(&cut->moov, chunk.offset);
        } else {
            box_put32(&cut->moov, (uint32_t) chunk.offset);
        }
        offsets->count++;
        cut->first = chunk.offset < cut->first ? chunk.offset : cut->first;
        cut->last = chunk.offset + chunk.bytes > cut->last ? chunk.offset + chunk.bytes : cut->last;
    }
    box_set32(cut->moov.data + offsets->at - 4, offsets->count);
    box_end(&cut->moov, begin);
    return chunk.sample >= track->end || mp4_cut_fail(cut, "fewer chunks than samples");
}

/* ---- a track ---- */

/* Copies a box with another duration, which is at offset `at[0]` in version 0, else at `at[1]`. */
static void put_with_duration(struct buf *out, const struct box *box, const size_t at[2],
                              uint64_t duration)
{
    size_t data = out->len + box->whole.len - box->data.len;
    bool is_large = *box->data.data != 0;

    buf_append(out, box->whole);
    if (is_large) {
        box_set64(out->data + data + at[1], duration);
    } else {
        box_set32(out->data + data + at[0],
                  duration > UINT32_MAX ? UINT32_MAX : (uint32_t) duration);
    }
}

/* Writes an edit list: samples before the requested time are decoded, but not shown. */
static void put_edits(struct buf *out, const struct track *track, uint64_t duration)
{
    if (track->prefix == 0) {
        return;
    }
    size_t edts = box_begin(out, BOX('e', 'd', 't', 's'));
    size_t elst = box_begin(out, BOX('e', 'l', 's', 't'));

    box_put32(out, 1u << 24);
    box_put32(out, 1);
    box_put64(out, duration);
    box_put64(out, track->prefix);
    box_put32(out, 1u << 16);
    box_end(out, elst);
    box_end(out, edts);
}

static bool put_samples(struct cut *cut, const struct track *track)
{
    size_t begin = box_begin(&cut->moov, BOX('s', 't', 'b', 'l'));

    buf_append(&cut->moov, track->stsd.whole);
    put_times(&cut->moov, track);
    put_keys(&cut->moov, track);
    put_groups(&cut->moov, track);
    put_sizes(&cut->moov, track);
    if (!put_chunks(cut, track)) {
        return false;
    }
    box_end(&cut->moov, begin);
    return true;
}

/* Converts units of a track to those of the video. */
static uint64_t in_video_units(const struct cut *cut, const struct track *track, uint64_t time)
{
    return time / track->units * cut->units + time % track->units * cut->units / track->units;
}

static bool put_track(struct cut *cut, const struct track *track)
{
    static const size_t of_tkhd[2] = {20, 28};
    static const size_t of_mdhd[2] = {16, 24};
    struct buf *out = &cut->moov;
    uint64_t shown = track->duration > track->prefix ? track->duration - track->prefix : 0;
    uint64_t duration = in_video_units(cut, track, shown);
    struct str rest = track->minf.data;
    struct box box;

    cut->duration = duration > cut->duration ? duration : cut->duration;
    size_t trak = box_begin(out, BOX('t', 'r', 'a', 'k'));
    put_with_duration(out, &track->tkhd, of_tkhd, duration);
    put_edits(out, track, duration);
    size_t mdia = box_begin(out, BOX('m', 'd', 'i', 'a'));
    put_with_duration(out, &track->mdhd, of_mdhd, track->duration);
    buf_append(out, track->hdlr.whole);
    size_t minf = box_begin(out, BOX('m', 'i', 'n', 'f'));
    while (box_next(&rest, &box)) {
        if (box.type != BOX('s', 't', 'b', 'l')) {
            buf_append(out, box.whole);
        }
    }
    if (!put_samples(cut, track)) {
        return false;
    }
    box_end(out, minf);
    box_end(out, mdia);
    box_end(out, trak);
    return true;
}

/* Adds a track, unless none of its samples are in the part. */
static bool add_track(struct cut *cut, struct str trak)
{
    struct track track;
    const char *problem = track_read(&track, trak);

    if (problem != NULL) {
        return mp4_cut_fail(cut, problem);
    }
    track_choose(&track, cut);
    if (track.start >= track.end) {
        return true;
    }
    return cut->tracks == CUT_TRACKS_MAX ? mp4_cut_fail(cut, "too many tracks")
                                         : put_track(cut, &track);
}

/* ---- the video ---- */

bool cut_is_fragmented(struct str moov)
{
    struct box box;

    return box_find(moov, BOX('m', 'v', 'e', 'x'), &box);
}

bool cut_video(struct cut *cut, struct str moov)
{
    static const size_t of_mvhd[2] = {16, 24};
    struct box mvhd;
    struct box box;

    cut->first = UINT64_MAX;
    cut->last = 0;
    if (!box_find(moov, BOX('m', 'v', 'h', 'd'), &mvhd) || !box_has(&mvhd, 20, 32)) {
        return mp4_cut_fail(cut, "no mvhd box");
    }
    cut->units = box_get32(mvhd.data.data + (*mvhd.data.data == 0 ? 12 : 20));
    size_t begin = box_begin(&cut->moov, BOX('m', 'o', 'o', 'v'));
    size_t head = cut->moov.len;
    buf_append(&cut->moov, mvhd.whole);
    while (box_next(&moov, &box)) {
        if (box.type == BOX('t', 'r', 'a', 'k') && !add_track(cut, box.data)) {
            return false;
        }
    }
    if (cut->tracks == 0) {
        return mp4_cut_fail(cut, "no samples from there on");
    }
    struct buf again = {cut->moov.data, head, cut->moov.capacity};
    put_with_duration(&again, &mvhd, of_mvhd, cut->duration);
    box_end(&cut->moov, begin);
    return true;
}

void cut_position(struct cut *cut, uint64_t at)
{
    for (unsigned i = 0; i < cut->tracks; i++) {
        const struct cut_offsets *offsets = &cut->offsets[i];
        char *item = cut->moov.data + offsets->at;

        for (uint32_t n = 0; n < offsets->count; n++, item += offsets->is_large ? 8 : 4) {
            if (offsets->is_large) {
                box_set64(item, box_get64(item) - cut->first + at);
            } else {
                box_set32(item, (uint32_t) (box_get32(item) - cut->first + at));
            }
        }
    }
}
