/* Ngx_http_mp4_module: a part of a video between two times. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/parse.h"
#include "http/modules/content/mp4/video.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/module.h"
#include "server/process/cells.h"

#define BOXES_MAX 1000                   /* boxes examined in the search for the moov box */
#define RATE_FACTOR_ON 1100              /* the factor of "mp4_limit_rate on", in thousandths */
#define RATE_FACTOR_MAX 1000000000       /* in thousandths */
#define TIME_MAX_MS ((uint64_t) 1 << 40) /* later times are treated as this */

struct mp4_settings {
    uint64_t buffer_size; /* accepted and ignored: each box is read by its own size */
    uint64_t max_buffer_size;
    bool start_key_frame;
    uint64_t rate_factor; /* of mp4_limit_rate, in thousandths; 0 = off */
    uint64_t rate_after_ms;
};

static struct settings_key mp4_key;

static const struct mp4_settings *mp4_settings_at(const struct request *request)
{
    return location_settings(request->location, &mp4_key);
}

enum handler_result video_refuse(struct video *video, const char *problem)
{
    log_error(&video->request->log, 0, "mp4: \"%.*s\": %s", STR_ARG(video->file->path), problem);
    return request_fail(video->request, 500);
}

/* ---- reading ---- */

size_t video_read(const struct video *video, uint64_t offset, char *at, size_t size)
{
    const struct file *file = video->file;
    size_t taken = 0;

    if (file->contents.data != NULL) {
        struct str rest = str_skip(file->contents, offset < file->size ? offset : file->size);
        return (size_t) (str_put(at, str_head(rest, size)) - at);
    }
    while (taken < size) {
        ssize_t n = pread(file->fd, at + taken, size - taken, (off_t) (offset + taken));
        if (n <= 0 && (n == 0 || errno != EINTR)) {
            break;
        }
        taken += n > 0 ? (size_t) n : 0;
    }
    return taken;
}

bool video_box_at(const struct video *video, uint64_t at, struct box_head *out)
{
    char bytes[BOX_HEAD_LARGE];
    size_t length = video_read(video, at, bytes, sizeof(bytes));

    return at < video->file->size &&
           box_head_read((struct str){bytes, length}, video->file->size - at, out);
}

/* Direct I/O works only on whole blocks, and boxes are not aligned to blocks. */
static void leave_direct_io(const struct file *file)
{
    int flags = file->is_directio ? fcntl(file->fd, F_GETFL) : -1;

    if (flags != -1) {
        fcntl(file->fd, F_SETFL, flags & ~O_DIRECT);
    }
}

/* Finds the boxes that are needed. NULL, or an error message. */
static const char *scan_boxes(struct video *video)
{
    uint64_t at = 0;

    for (unsigned i = 0; i < BOXES_MAX && at < video->file->size; i++) {
        struct box_head head;

        if (!video_box_at(video, at, &head)) {
            return "a box that is not whole";
        }
        if (head.type == BOX('f', 't', 'y', 'p') && video->ftyp_length == 0) {
            if (head.size > FTYP_MAX ||
                video_read(video, at, video->ftyp, head.size) != head.size) {
                return "a ftyp box that is too large";
            }
            video->ftyp_length = head.size;
        } else if (head.type == BOX('m', 'o', 'o', 'v')) {
            video->moov_at = at + head.length;
            video->moov_size = head.size - head.length;
            return NULL;
        }
        at += head.size;
    }
    return "no moov box";
}

/* ---- the response ---- */

/* Makes everything before the samples: the ftyp box, the moov box, and the head of the mdat box. */
static struct buf make_head(struct video *video)
{
    struct cut *cut = &video->cut;
    uint64_t samples = cut->last - cut->first;
    bool is_large = samples + BOX_HEAD > UINT32_MAX;
    struct buf head = {0};

    buf_append(&head, (struct str){video->ftyp, video->ftyp_length});
    cut_position(cut, video->ftyp_length + cut->moov.len + (is_large ? BOX_HEAD_LARGE : BOX_HEAD));
    buf_append(&head, buf_str(&cut->moov));
    box_put32(&head, is_large ? 1 : (uint32_t) (samples + BOX_HEAD));
    box_put32(&head, BOX('m', 'd', 'a', 't'));
    if (is_large) {
        box_put64(&head, samples + BOX_HEAD_LARGE);
    }
    return head;
}

/* Takes over the file. MAY WAIT. */
static enum handler_result send_video(struct video *video)
{
    struct request *request = video->request;
    struct buf head = make_head(video);
    uint64_t length = video->cut.last - video->cut.first;

    response_describe_file(request, video->file, head.len + length);
    request->response.range.is_single = true; /* the body has two pieces */
    enum handler_result result = response_start(request);
    if (result != HANDLER_NEXT) {
        buf_free(&head);
        file_release(video->file);
        return result;
    }
    const struct body_piece piece = {.bytes = buf_str(&head),
                                     .fd = -1,
                                     .release = free,
                                     .release_arg = head.data};
    if (!response_send(request, &piece, false)) {
        file_release(video->file);
        return HANDLER_CLOSED;
    }
    return response_send_part(request, video->file, video->cut.first, length, true)
               ? HANDLER_DONE
               : HANDLER_CLOSED;
}

/* Finds and reads the moov box into video->moov. HANDLER_NEXT: it was read. */
static enum handler_result read_moov(struct video *video)
{
    const char *problem = video->moov_size == 0 ? scan_boxes(video) : NULL;

    if (problem != NULL) {
        return video_refuse(video, problem);
    }
    if (video->moov_size > video->box_most) {
        counters_mine->limited++;
        return video_refuse(
            video, "the moov box is too large, you may want to increase mp4_max_buffer_size");
    }
    char *bytes = buf_reserve(&video->moov, video->moov_size + 1);
    video->moov.len = video_read(video, video->moov_at, bytes, video->moov_size);
    return video->moov.len == video->moov_size
               ? HANDLER_NEXT
               : video_refuse(video, "the moov box could not be read");
}

/* Takes over the file. MAY WAIT. */
static enum handler_result answer_by_tables(struct video *video)
{
    struct cut *cut = &video->cut;

    cut->file_size = video->file->size;
    cut->is_large = video->file->size + video->moov_size > UINT32_MAX;
    if (!cut_video(cut, buf_str(&video->moov))) {
        enum handler_result result = video_refuse(video, cut->problem);
        file_release(video->file);
        return result;
    }
    buf_free(&video->moov);
    return send_video(video);
}

static void free_buffers(void *arg)
{
    struct video *video = arg;

    buf_free(&video->moov);
    buf_free(&video->cut.moov);
}

/* Takes over the file. MAY WAIT. */
static enum handler_result answer_part(struct video *video)
{
    leave_direct_io(video->file);
    arena_on_free(&video->request->arena, free_buffers, video);
    enum handler_result result = read_moov(video);
    if (result != HANDLER_NEXT) {
        file_release(video->file);
        return result;
    }
    return cut_is_fragmented(buf_str(&video->moov)) ? video_answer_fragments(video)
                                                    : answer_by_tables(video);
}

/* Parses a time in seconds, with up to three decimals. */
static bool get_time(const struct request *request, struct str name, uint64_t *out_ms)
{
    struct str text;

    if (!request_argument(request, name, &text) || !parse_fixed_point(text, 3, out_ms)) {
        return false;
    }
    *out_ms = *out_ms > TIME_MAX_MS ? TIME_MAX_MS : *out_ms;
    return true;
}

/* Reads the arguments. False: there are no valid ones; the whole file is sent unchanged. */
static bool read_times(const struct request *request, struct cut *cut)
{
    bool has_start = get_time(request, STR("start"), &cut->start_ms);
    bool has_end = get_time(request, STR("end"), &cut->end_ms) && cut->end_ms > cut->start_ms;

    if (!has_end) {
        cut->end_ms = CUT_TO_THE_END;
    }
    return has_start || has_end;
}

/* Applies mp4_limit_rate. Files that are not videos are sent without a limit. */
static void limit_video(struct video *video, const struct mp4_settings *settings)
{
    leave_direct_io(video->file);
    if (scan_boxes(video) == NULL) {
        video_limit_rate(video, settings->rate_factor, settings->rate_after_ms);
    }
}

static enum handler_result mp4_answer(struct request *request)
{
    const struct mp4_settings *settings = mp4_settings_at(request);
    enum handler_result result;
    struct file *file = request_open_file(request, &result);

    if (file == NULL) {
        return result;
    }
    struct cut cut = {.at_key_frame = settings->start_key_frame};
    bool is_part = read_times(request, &cut);
    if (!is_part && settings->rate_factor == 0) {
        return response_file(request, file);
    }
    struct video *video = arena_new(&request->arena, struct video);
    video->request = request;
    video->file = file;
    video->cut = cut;
    video->box_most = settings->max_buffer_size;
    if (settings->rate_factor != 0) {
        limit_video(video, settings);
    }
    return is_part ? answer_part(video) : response_file(request, file);
}

/* ---- directives ---- */

static bool mp4_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings)
{
    content_set(scope_location(scope), mp4_answer, NULL);
    return true;
}

#define S struct mp4_settings

static bool mp4_limit_rate_apply(struct conf_scope *scope, const struct directive *row,
                                 struct conf_node *node, void *arg)
{
    S *settings = arg;
    struct str word = node->args[1];

    if (str_is(word, "off") || str_is(word, "on")) {
        settings->rate_factor = str_is(word, "on") ? RATE_FACTOR_ON : 0;
        return true;
    }
    if (!parse_fixed_point(word, 3, &settings->rate_factor) || settings->rate_factor == 0 ||
        settings->rate_factor > RATE_FACTOR_MAX) {
        return conf_error(scope->conf, node, "invalid value \"%.*s\"", STR_ARG(word));
    }
    return true;
}

static const struct directive mp4_rows[] = {
    {"mp4", IN_LOCATION, CUSTOM(mp4_apply), ARGS(0, 0), .repeat = REPEAT_CUSTOM,
     .doc = "Serves video files in the MP4 format. With the arguments start and end (in "
            "seconds), the response is a video with the part between these times. "
            "Fragmented files are cut at fragments, beginning with the last key frame at "
            "or before the start."},
    {"mp4_buffer_size", IN_HTTP_ALL, SIZE(S, buffer_size), .initial = "512K",
     .doc = "Accepted and ignored: boxes are read with their actual size."},
    {"mp4_max_buffer_size", IN_HTTP_ALL, SIZE(S, max_buffer_size), .initial = "10M",
     .doc = "Maximum size of the moov box, of the index and of moof boxes when a part of a "
            "video is requested. If one is larger, the response is 500."},
    {"mp4_start_key_frame", IN_HTTP_ALL, FLAG(S, start_key_frame), .initial = "off",
     .doc = "Whether a part begins with the last key frame before the start. Players do "
            "not show the frames before the start."},
    {"mp4_limit_rate", IN_HTTP_ALL, CUSTOM_FIELD(S, rate_factor, mp4_limit_rate_apply), ARGS(1, 1),
     .initial = "off", .syntax = "on | off | factor",
     .doc = "Limits the rate of a video to its average bit rate times the factor; `on` is "
            "1.1. The rate is at least 1k per second. It replaces limit_rate. The rate of "
            "videos without a duration is not limited."},
    {"mp4_limit_rate_after", IN_HTTP_ALL, MSEC(S, rate_after_ms), .initial = "60s",
     .doc = "Playing time of a video that is sent before mp4_limit_rate applies."},
    {0},
};
#undef S

const struct module ngx_http_mp4_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_mp4_module",
    .kind = MODULE_HTTP,
    .table = {.key = &mp4_key,
              .rows = mp4_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct mp4_settings)},
};
