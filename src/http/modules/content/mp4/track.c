/* The tables of a track, and the selection of its samples. */
#include "http/modules/content/mp4/track.h"

/* ---- tables ---- */

static const char *read_sizes(struct track *track, struct str stbl)
{
    struct box box;

    if (!box_find(stbl, BOX('s', 't', 's', 'z'), &box) || box.data.len < 12) {
        return "no stsz box";
    }
    track->size = box_get32(box.data.data + 4);
    if (track->size != 0) {
        track->sizes.count = box_get32(box.data.data + 8);
        return NULL;
    }
    return box_table_read(&box, 8, 4, &track->sizes) ? NULL : "a stsz box that is not whole";
}

static const char *read_chunks(struct track *track, struct str stbl)
{
    struct box box;

    track->has_large_chunks = box_find(stbl, BOX('c', 'o', '6', '4'), &box);
    if (!track->has_large_chunks && !box_find(stbl, BOX('s', 't', 'c', 'o'), &box)) {
        return "neither a stco nor a co64 box";
    }
    return box_table_read(&box, 4, track->has_large_chunks ? 8 : 4, &track->chunks)
               ? NULL
               : "a table of chunks that is not whole";
}

/* The groups must begin with chunk 1 and be in ascending order. */
static const char *read_groups(struct track *track, struct str stbl)
{
    struct box box;
    uint32_t before = 0;

    if (!box_find(stbl, BOX('s', 't', 's', 'c'), &box) ||
        !box_table_read(&box, 4, 12, &track->groups)) {
        return "no whole stsc box";
    }
    for (uint32_t i = 0; i < track->groups.count; i++) {
        uint32_t first = box_get32(track->groups.items + 12 * (size_t) i);
        if (i == 0 ? first != 1 : first <= before) {
            return "a stsc box out of order";
        }
        before = first;
    }
    return NULL;
}

static const char *read_samples(struct track *track, struct str stbl)
{
    struct box box;
    const char *problem;
    uint64_t samples = 0;

    if (!box_find(stbl, BOX('s', 't', 's', 'd'), &track->stsd)) {
        return "no stsd box";
    }
    if (!box_find(stbl, BOX('s', 't', 't', 's'), &box) ||
        !box_table_read(&box, 4, 8, &track->times)) {
        return "no whole stts box";
    }
    track->has_keys = box_find(stbl, BOX('s', 't', 's', 's'), &box);
    if (track->has_keys && !box_table_read(&box, 4, 4, &track->keys)) {
        return "a stss box that is not whole";
    }
    if (box_find(stbl, BOX('c', 't', 't', 's'), &track->ctts) &&
        !box_table_read(&track->ctts, 4, 8, &track->shifts)) {
        return "a ctts box that is not whole";
    }
    if ((problem = read_sizes(track, stbl)) != NULL ||
        (problem = read_chunks(track, stbl)) != NULL ||
        (problem = read_groups(track, stbl)) != NULL) {
        return problem;
    }
    for (uint32_t i = 0; i < track->times.count; i++) {
        samples += box_get32(track->times.items + 8 * (size_t) i);
    }
    track->samples = samples < track->sizes.count ? (uint32_t) samples : track->sizes.count;
    return NULL;
}

const char *track_read(struct track *track, struct str trak)
{
    struct box mdia;
    struct box stbl;

    *track = (struct track){.start = 0};
    if (!box_find(trak, BOX('t', 'k', 'h', 'd'), &track->tkhd) || !box_has(&track->tkhd, 24, 36)) {
        return "no tkhd box";
    }
    if (!box_find(trak, BOX('m', 'd', 'i', 'a'), &mdia) ||
        !box_find(mdia.data, BOX('m', 'd', 'h', 'd'), &track->mdhd) ||
        !box_has(&track->mdhd, 20, 32)) {
        return "no mdhd box";
    }
    track->units = box_get32(track->mdhd.data.data + (*track->mdhd.data.data == 0 ? 12 : 20));
    if (track->units == 0) {
        return "a mdhd box without a timescale";
    }
    box_find(mdia.data, BOX('h', 'd', 'l', 'r'), &track->hdlr);
    if (!box_find(mdia.data, BOX('m', 'i', 'n', 'f'), &track->minf) ||
        !box_find(track->minf.data, BOX('s', 't', 'b', 'l'), &stbl)) {
        return "no stbl box";
    }
    return read_samples(track, stbl.data);
}

/* ---- times ---- */

uint64_t track_time_of(const struct track *track, uint32_t sample)
{
    uint64_t time = 0;

    for (uint32_t i = 0; i < track->times.count && sample != 0; i++) {
        uint32_t count = box_get32(track->times.items + 8 * (size_t) i);
        uint32_t taken = count < sample ? count : sample;

        time += (uint64_t) taken * box_get32(track->times.items + 8 * (size_t) i + 4);
        sample -= taken;
    }
    return time;
}

/* The sample at this time; with `is_up` the first that begins then or later. The number of samples
 * if there is none. */
static uint32_t sample_at(const struct track *track, uint64_t time, bool is_up)
{
    uint64_t sample = 0;

    for (uint32_t i = 0; i < track->times.count; i++) {
        uint64_t count = box_get32(track->times.items + 8 * (size_t) i);
        uint64_t each = box_get32(track->times.items + 8 * (size_t) i + 4);

        if (time < count * each) {
            sample += time / each + (is_up && time % each != 0);
            break;
        }
        time -= count * each;
        sample += count;
    }
    return sample < track->samples ? (uint32_t) sample : track->samples;
}

/* The last key frame at or before this sample. */
static uint32_t key_before(const struct track *track, uint32_t sample)
{
    uint32_t found = track->has_keys ? 0 : sample;

    for (uint32_t i = 0; i < track->keys.count; i++) {
        uint32_t number = box_get32(track->keys.items + 4 * (size_t) i);
        if (number != 0 && number - 1 <= sample && number - 1 > found) {
            found = number - 1;
        }
    }
    return found;
}

/* Converts milliseconds to units without overflow. */
static uint64_t in_units(uint64_t ms, uint32_t units)
{
    return ms / 1000 * units + ms % 1000 * units / 1000;
}

void track_choose(struct track *track, const struct cut *cut)
{
    uint64_t start = in_units(cut->start_ms, track->units);

    track->start = sample_at(track, start, false);
    track->end = cut->end_ms == CUT_TO_THE_END
                     ? track->samples
                     : sample_at(track, in_units(cut->end_ms, track->units), true);
    if (track->start >= track->samples) {
        track->end = track->start;
        return;
    }
    if (track->end <= track->start) {
        track->end = track->start + 1;
    }
    if (cut->at_key_frame) {
        uint32_t key = key_before(track, track->start);
        if (key != track->start) {
            track->start = key;
            track->prefix = start - track_time_of(track, key);
        }
    }
    track->duration = track_time_of(track, track->end) - track_time_of(track, track->start);
}
