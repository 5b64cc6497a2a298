/* Fragmented videos: finds the fragments of the part and sends them. */
#include <stdlib.h>

#include "event/loop.h"
#include "http/modules/content/mp4/video.h"
#include "http/modules/content/mp4/fragments.h"
#include "server/process/cells.h"

enum {
    BOXES_MAX = 1 << 20,  /* boxes examined in a file without an index */
    BOXES_IN_A_TURN = 64, /* boxes read before other requests get a turn */
    BOXES_BEFORE_MAX = 16 /* boxes between the beginning of a segment and its moof */
};

#define MOOF BOX('m', 'o', 'o', 'f')
#define SIDX BOX('s', 'i', 'd', 'x')
#define MFRA BOX('m', 'f', 'r', 'a')

/* What is known about the fragments of a video. */
struct search {
    struct video *video;
    struct fragments fragments;
    struct fragment_choice choice;
    uint64_t begin; /* offset after the moov box */
    uint64_t end;   /* offset of the end of the last fragment */
    uint64_t time;  /* of the first fragment of the part, in units of the main track */
};

/* Reads the contents of a box; data == NULL: it is too large, or cannot be read. The caller frees
 * the result. */
static char *read_box(const struct video *video, uint64_t at, const struct box_head *head,
                      struct str *out)
{
    size_t size = head->size - head->length;
    char *bytes = head->size > video->box_most ? NULL : malloc(size + 1);

    if (bytes != NULL && video_read(video, at + head->length, bytes, size) != size) {
        free(bytes);
        bytes = NULL;
    }
    *out = (struct str){bytes, bytes == NULL ? 0 : size};
    return bytes;
}

/* Parses the moof box at this offset. False: there is none, or it is malformed. */
static bool read_fragment(struct search *search, uint64_t at, const struct box_head *head,
                          struct fragment *out)
{
    struct str moof;
    char *bytes = read_box(search->video, at, head, &moof);
    bool is_good = bytes != NULL && fragment_read(&search->fragments, moof, out);

    free(bytes);
    return is_good;
}

/* ---- indexes ---- */

static void begin_choice(struct search *search)
{
    search->choice = (struct fragment_choice){.start_ms = search->video->cut.start_ms,
                                              .end_ms = search->video->cut.end_ms};
}

/* Does a segment begin at the first chosen offset? Reads the time of its first fragment. */
static bool check_first(struct search *search)
{
    uint64_t at = search->choice.first;
    struct fragment fragment;
    struct box_head head;

    if (at < search->begin) {
        return false;
    }
    for (unsigned i = 0; i < BOXES_BEFORE_MAX && video_box_at(search->video, at, &head); i++) {
        if (head.type == MOOF) {
            search->time = 0;
            if (!read_fragment(search, at, &head, &fragment) || !fragment.has_main) {
                return false;
            }
            search->time = fragment.time;
            return true;
        }
        if (head.type == BOX('m', 'd', 'a', 't')) {
            return false;
        }
        at += head.size;
    }
    return false;
}

/* Is the choice that an index led to consistent with the file? */
static bool check_choice(struct search *search)
{
    const struct fragment_choice *choice = &search->choice;
    struct box_head head;

    return choice->has_first && choice->first < search->end &&
           (choice->last == 0 || (choice->last > choice->first && choice->last <= search->end &&
                                  video_box_at(search->video, choice->last, &head))) &&
           check_first(search);
}

/* Uses a sidx box that precedes the first fragment and covers all of them. */
static bool search_segments(struct search *search)
{
    uint64_t at = search->begin, end = 0;
    struct box_head head;
    struct str sidx;

    for (unsigned i = 0; i < BOXES_BEFORE_MAX && video_box_at(search->video, at, &head); i++) {
        if (head.type == MOOF) {
            return false;
        }
        if (head.type == SIDX) {
            char *bytes = read_box(search->video, at, &head, &sidx);
            begin_choice(search);
            bool is_good = fragments_by_segments(sidx, at + head.size, &search->choice, &end);
            free(bytes);
            return is_good && end >= search->end && check_choice(search);
        }
        at += head.size;
    }
    return false;
}

/* Finds the mfra box by the last bytes of the file; gives its offset, or 0 if there is none. */
static uint64_t find_access(const struct video *video, struct box_head *head)
{
    uint64_t size = video->file->size;
    char bytes[16];

    if (size < 32 || video_read(video, size - 16, bytes, 16) != 16 ||
        box_get32(bytes + 4) != BOX('m', 'f', 'r', 'o') || box_get32(bytes + 12) > size) {
        return 0;
    }
    uint64_t at = size - box_get32(bytes + 12);
    return video_box_at(video, at, head) && head->type == MFRA ? at : 0;
}

static bool search_access(struct search *search, uint64_t at, const struct box_head *head)
{
    struct str mfra;
    char *bytes = read_box(search->video, at, head, &mfra);

    begin_choice(search);
    bool is_good = fragments_by_access(&search->fragments, mfra, &search->choice);
    free(bytes);
    return is_good && check_choice(search);
}

/* ---- without an index ---- */

/* Adds a fragment as a possible start or end if it has samples of the main track. */
static bool look_at_fragment(struct search *search, uint64_t at, const struct box_head *head)
{
    struct fragment fragment;
    struct fragment_choice *choice = &search->choice;

    if (!read_fragment(search, at, head, &fragment)) {
        return false;
    }
    if (fragment.has_main) {
        fragment_choose(choice, at, fragment.time_ms, fragment.is_key);
        if (choice->first == at) {
            search->time = fragment.time;
        }
        if (choice->last == 0) {
            choice->last_ms = fragment.end_ms;
        }
    }
    return true;
}

/* Examines all fragments in order. NULL, or an error message. MAY WAIT. */
static const char *search_all(struct search *search, bool *is_gone)
{
    uint64_t at = search->begin;
    struct box_head head;

    begin_choice(search);
    for (unsigned i = 0; at < search->end && search->choice.last == 0; i++) {
        if (i % BOXES_IN_A_TURN == 0 && !loop_share()) {
            *is_gone = true;
            return NULL;
        }
        if (i == BOXES_MAX) {
            counters_mine->limited++;
            return "too many boxes";
        }
        if (!video_box_at(search->video, at, &head)) {
            return "a box that is not whole";
        }
        if (head.type == MOOF && !look_at_fragment(search, at, &head)) {
            return "a moof box that is malformed, or larger than mp4_max_buffer_size";
        }
        at += head.size;
    }
    if (!search->choice.has_first) {
        search->choice.first_ms = UINT64_MAX; /* all samples of the moov box are before them */
    }
    return search->choice.has_first || search->fragments.has_samples ? NULL : "no fragments";
}

/* NULL, or an error message. MAY WAIT. */
static const char *search_part(struct search *search, bool *is_gone)
{
    struct box_head head;
    uint64_t access = find_access(search->video, &head);

    search->end = access != 0 ? access : search->video->file->size;
    if (search_segments(search) || (access != 0 && search_access(search, access, &head))) {
        return NULL;
    }
    for (unsigned i = 0; i < search->fragments.count; i++) {
        search->fragments.tracks[i].time =
            0; /* reading fragments for an index may have changed it */
    }
    return search_all(search, is_gone);
}

/* ---- the response ---- */

/* Sends a range of the file unchanged. MAY WAIT. */
static bool send_bytes(struct video *video, uint64_t from, uint64_t to)
{
    if (from == to) {
        return true;
    }
    video->file->references++;
    return response_send_part(video->request, video->file, from, to - from, false);
}

/* MAY WAIT. */
static bool send_moof(struct search *search, uint64_t at, const struct box_head *head,
                      const struct fragment_move *move)
{
    struct video *video = search->video;
    char *bytes = malloc(head->size);

    if (bytes == NULL || video_read(video, at, bytes, head->size) != head->size) {
        free(bytes);
        return false; /* the file was truncated: the response is incomplete, and its connection is
                         closed */
    }
    fragment_move(&search->fragments, bytes + head->length, head->size - head->length, move);
    const struct body_piece piece = {.bytes = {bytes, head->size},
                                     .fd = -1,
                                     .release = free,
                                     .release_arg = bytes};
    return response_send(video->request, &piece, false);
}

/* Sends the type "free" in place of an index box's type, so that players do not use an index of the
 * whole video. MAY WAIT. */
static bool send_unnamed(struct video *video)
{
    const struct body_piece piece = {.bytes = STR_INIT("free"), .fd = -1};

    return response_send(video->request, &piece, false);
}

/* Sends the fragments, with the times and offsets of the new video. MAY WAIT. */
static bool send_fragments(struct search *search, const struct fragment_move *move, uint64_t last)
{
    struct video *video = search->video;
    uint64_t at = search->choice.first, from = at;
    struct box_head head;

    /* A box that extends beyond the part is cut off at its end. */
    while (at < last && video_box_at(video, at, &head) && head.size <= last - at) {
        if (head.type == MOOF && head.size <= video->box_most) {
            if (!send_bytes(video, from, at) || !send_moof(search, at, &head, move)) {
                return false;
            }
            from = at + head.size;
        } else if (head.type == SIDX || head.type == MFRA) {
            if (!send_bytes(video, from, at + 4) || !send_unnamed(video)) {
                return false;
            }
            from = at + BOX_HEAD;
        }
        at += head.size;
    }
    return from >= last || send_bytes(video, from, last);
}

/* MAY WAIT. */
static enum handler_result end_body(struct video *video, bool was_sent)
{
    const struct body_piece end = {.bytes = STR_INIT(""), .fd = -1};

    return was_sent && response_send(video->request, &end, true) ? HANDLER_DONE : HANDLER_CLOSED;
}

/* Sends the head and the fragments. MAY WAIT. */
static enum handler_result send_part(struct search *search, uint64_t last)
{
    struct video *video = search->video;
    const struct fragment_choice *choice = &search->choice;
    bool is_known = choice->last_ms > choice->first_ms;
    struct buf head = {0};

    buf_append(&head, (struct str){video->ftyp, video->ftyp_length});
    fragments_put_moov(&head, buf_str(&video->moov),
                       is_known ? choice->last_ms - choice->first_ms : 0);
    const struct fragment_move move = {.time = search->time, .offset = head.len - choice->first};
    const struct body_piece piece = {.bytes = buf_str(&head),
                                     .fd = -1,
                                     .release = free,
                                     .release_arg = head.data};
    response_describe_file(video->request, video->file, head.len + (last - choice->first));
    video->request->response.range.is_single = true;
    enum handler_result result = response_start(video->request);
    if (result != HANDLER_NEXT) {
        buf_free(&head);
        return result;
    }
    return end_body(video, response_send(video->request, &piece, false) &&
                               send_fragments(search, &move, last));
}

/* Sends the beginning of the file, because samples of the moov box are requested. MAY WAIT. */
static enum handler_result send_beginning(struct video *video, uint64_t last)
{
    response_describe_file(video->request, video->file, last);
    enum handler_result result = response_start(video->request);
    return result != HANDLER_NEXT ? result : end_body(video, send_bytes(video, 0, last));
}

/* MAY WAIT. */
static enum handler_result answer_part(struct search *search)
{
    struct video *video = search->video;
    const struct fragment_choice *choice = &search->choice;
    bool is_gone = false;
    const char *problem = fragments_read(&search->fragments, buf_str(&video->moov));

    problem = problem != NULL ? problem : search_part(search, &is_gone);
    if (is_gone) {
        return HANDLER_CLOSED;
    }
    if (problem == NULL && choice->last_ms != 0 && video->cut.start_ms >= choice->last_ms) {
        problem = "no samples from there on";
    }
    if (problem != NULL) {
        return video_refuse(video, problem);
    }
    uint64_t last = choice->last != 0 ? choice->last : search->end;
    return search->fragments.has_samples && choice->first_ms > video->cut.start_ms
               ? send_beginning(video, last)
               : send_part(search, last);
}

enum handler_result video_answer_fragments(struct video *video)
{
    struct search *search = arena_new(&video->request->arena, struct search);

    search->video = video;
    search->begin = video->moov_at + video->moov_size;
    enum handler_result result = answer_part(search);
    file_release(video->file);
    return result;
}
