/* Fragmented videos: which fragments belong to a part, and how a response with them describes them.
 * Pure functions. */
#ifndef HTTP_MODULES_CONTENT_MP4_FRAGMENTS_H
#define HTTP_MODULES_CONTENT_MP4_FRAGMENTS_H

#include "http/modules/content/mp4/cut.h"

/* A track, as described by the moov box. */
struct fragment_track {
    uint32_t number;
    uint32_t units;    /* per second */
    uint32_t duration; /* default of a sample */
    uint32_t flags;    /* default of a sample */
    uint64_t time;     /* total of the fragments so far, in units, for fragments without a time */
};

struct fragments {
    struct fragment_track tracks[CUT_TRACKS_MAX];
    unsigned count;
    unsigned main; /* index of the track whose key frames are used: the first video track, else the
                      first */
    bool has_samples; /* the moov box describes samples itself; they precede all fragments */
};

/* Reads the contents of the moov box. NULL, or an error message. */
const char *fragments_read(struct fragments *fragments, struct str moov);

/* A fragment (the contents of a moof box), as far as the main track is concerned. */
struct fragment {
    bool has_main;    /* it has samples of the main track */
    bool is_key;      /* the first of these is a key frame */
    uint64_t time_ms; /* of the first sample */
    uint64_t time;    /* of the first sample, in units of the track */
    uint64_t end_ms;  /* of the end of the last sample */
};

/* Reads a fragment; those without times must be read in order. False: it is malformed. */
bool fragment_read(struct fragments *fragments, struct str moof, struct fragment *out);

/* How a fragment changes in the response. */
struct fragment_move {
    uint64_t time;   /* subtracted from times, in units of the main track */
    uint64_t offset; /* added to offsets in the file, modulo 2^64: a large number moves backwards */
};
void fragment_move(const struct fragments *fragments, char *moof, size_t size,
                   const struct fragment_move *move);

/* The choice of fragments. The points at which fragments begin are passed in order. */
struct fragment_choice {
    uint64_t start_ms, end_ms; /* requested; may be CUT_TO_THE_END */
    bool has_first;
    uint64_t first; /* offset of the last key frame at or before the start */
    uint64_t first_ms;
    uint64_t last;    /* offset of the end of the part; 0: the end of the file */
    uint64_t last_ms; /* time of the end of the part; 0: unknown */
};
void fragment_choose(struct fragment_choice *choice, uint64_t at, uint64_t at_ms, bool is_key);

/* Passes the points of a segment index to fragment_choose: the contents of a sidx box that ends at
 * `anchor`. *end becomes the offset of the end of its last segment. False: the index cannot be
 * used. */
bool fragments_by_segments(struct str sidx, uint64_t anchor, struct fragment_choice *choice,
                           uint64_t *end);
/* Passes the points of an index of key frames to fragment_choose: the contents of a mfra box. */
bool fragments_by_access(const struct fragments *fragments, struct str mfra,
                         struct fragment_choice *choice);

/* Writes the moov box of the response: without samples, of a video with this duration (0:
 * unknown). */
void fragments_put_moov(struct buf *out, struct str moov, uint64_t duration_ms);

#endif
