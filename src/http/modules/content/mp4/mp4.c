/* ngx_http_mp4_module: a part of a film, by its times. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/parse.h"
#include "http/files/file.h"
#include "http/modules/content/mp4/cut.h"
#include "http/request/request.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/module.h"
#include "server/process/cells.h"

#define FTYP_MAX 1024                    /* bytes of the box that tells the kind of file */
#define BOXES_MAX 1000                   /* that are looked at for the moov box */
#define TIME_MAX_MS ((uint64_t) 1 << 40) /* later ones are as late as that */

struct mp4_settings {
    uint64_t buffer_size; /* understood: a box is read by the size that it tells */
    uint64_t max_buffer_size;
    bool start_key_frame;
};

static struct settings_key mp4_key;

static const struct mp4_settings *settings_at(const struct request *request)
{
    return location_settings(request->location, &mp4_key);
}

/* A film that is being cut. */
struct film {
    struct request *request;
    struct file *file;
    struct cut cut;
    char ftyp[FTYP_MAX];
    size_t ftyp_length;
    uint64_t moov_at; /* contents of the moov box: where, and how many bytes */
    uint64_t moov_size;
    bool is_fragmented; /* its samples are told of elsewhere */
};

static enum flow refuse(struct film *film, const char *problem)
{
    log_error(&film->request->log, 0, "mp4: \"%.*s\": %s", STR_ARG(film->file->path), problem);
    return request_fail(film->request, 500);
}

/* ---- reading ---- */

/* So many bytes from there, as far as the file goes; fewer where it could not be read. Blocks for the disk. */
static size_t read_at(const struct file *file, uint64_t offset, char *at, size_t size)
{
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

/* Direct I/O takes whole blocks only, and boxes are none. */
static void leave_direct_io(const struct file *file)
{
    int flags = file->is_directio ? fcntl(file->fd, F_GETFL) : -1;

    if (flags != -1) {
        fcntl(file->fd, F_SETFL, flags & ~O_DIRECT);
    }
}

/* Looks for the boxes that are needed. NULL, or what is wrong. */
static const char *scan_boxes(struct film *film)
{
    const struct file *file = film->file;
    uint64_t at = 0;

    for (unsigned i = 0; i < BOXES_MAX && at < file->size; i++) {
        char bytes[BOX_HEAD_LARGE];
        struct box_head head;

        size_t length = read_at(file, at, bytes, sizeof(bytes));
        if (!box_head_read((struct str){bytes, length}, file->size - at, &head)) {
            return "a box that is not whole";
        }
        if (head.type == BOX('f', 't', 'y', 'p') && film->ftyp_length == 0) {
            if (head.size > FTYP_MAX || read_at(file, at, film->ftyp, head.size) != head.size) {
                return "a ftyp box that is too large";
            }
            film->ftyp_length = head.size;
        } else if (head.type == BOX('m', 'o', 'o', 'f')) {
            film->is_fragmented = true;
            return NULL;
        } else if (head.type == BOX('m', 'o', 'o', 'v')) {
            film->moov_at = at + head.length;
            film->moov_size = head.size - head.length;
            return NULL;
        }
        at += head.size;
    }
    return "no moov box";
}

/* ---- the answer ---- */

/* What stands before the samples: kind of file, moov box, and the head of the box that they are in. */
static struct buf make_head(struct film *film)
{
    struct cut *cut = &film->cut;
    uint64_t samples = cut->last - cut->first;
    bool is_large = samples + BOX_HEAD > UINT32_MAX;
    struct buf head = {0};

    buf_append(&head, (struct str){film->ftyp, film->ftyp_length});
    cut_place(cut, film->ftyp_length + cut->moov.len + (is_large ? BOX_HEAD_LARGE : BOX_HEAD));
    buf_append(&head, buf_str(&cut->moov));
    box_put32(&head, is_large ? 1 : (uint32_t) (samples + BOX_HEAD));
    box_put32(&head, BOX('m', 'd', 'a', 't'));
    if (is_large) {
        box_put64(&head, samples + BOX_HEAD_LARGE);
    }
    return head;
}

/* Takes over the file. MAY WAIT. */
static enum flow send_film(struct film *film)
{
    struct request *request = film->request;
    struct buf head = make_head(film);
    uint64_t length = film->cut.last - film->cut.first;

    response_describe_file(request, film->file, head.len + length);
    request->response.is_single_range = true; /* it comes in two pieces */
    enum flow flow = response_start(request);
    if (flow != FLOW_NEXT) {
        buf_free(&head);
        file_release(film->file);
        return flow;
    }
    const struct body_piece piece = {.bytes = buf_str(&head),
                                     .fd = -1,
                                     .release = free,
                                     .release_arg = head.data};
    if (!response_send(request, &piece, false)) {
        file_release(film->file);
        return FLOW_CLOSED;
    }
    return response_send_part(request, film->file, film->cut.first, length, true) ? FLOW_DONE
                                                                                  : FLOW_CLOSED;
}

/* FLOW_NEXT: film->cut tells of the part. Else the answer was given, or refused. */
static enum flow cut_by_moov(struct film *film, char *moov)
{
    struct cut *cut = &film->cut;
    struct str contents = {moov, film->moov_size};

    if (read_at(film->file, film->moov_at, moov, film->moov_size) != film->moov_size) {
        return refuse(film, "the moov box could not be read");
    }
    if (cut_is_fragmented(contents)) {
        film->is_fragmented = true;
        return FLOW_NEXT;
    }
    cut->file_size = film->file->size;
    cut->is_large = film->file->size + film->moov_size > UINT32_MAX;
    return cut_film(cut, contents) ? FLOW_NEXT : refuse(film, cut->problem);
}

static enum flow cut_and_check(struct film *film)
{
    uint64_t most = settings_at(film->request)->max_buffer_size;
    const char *problem = scan_boxes(film);

    if (problem != NULL) {
        return refuse(film, problem);
    }
    if (film->is_fragmented) {
        return FLOW_NEXT;
    }
    if (film->moov_size > most) {
        counters_mine->limited++;
        return refuse(film,
                      "the moov box is too large, you may want to increase mp4_max_buffer_size");
    }
    struct buf moov = {0};
    enum flow flow = cut_by_moov(film, buf_reserve(&moov, film->moov_size + 1));
    buf_free(&moov);
    return flow;
}

/* Takes over the file. MAY WAIT. */
static enum flow answer_part(struct film *film)
{
    leave_direct_io(film->file);
    enum flow flow = cut_and_check(film);
    if (flow != FLOW_NEXT) {
        file_release(film->file);
    } else if (film->is_fragmented) {
        log_info(&film->request->log, 0, "mp4: \"%.*s\" is in fragments, and sent whole",
                 STR_ARG(film->file->path));
        flow = response_file(film->request, film->file);
    } else {
        flow = send_film(film);
    }
    buf_free(&film->cut.moov);
    return flow;
}

/* A time in seconds, with up to three digits behind the point. */
static bool get_time(const struct request *request, struct str name, uint64_t *out_ms)
{
    struct str text;

    if (!request_argument(request, name, &text) || !parse_fixed_point(text, 3, out_ms)) {
        return false;
    }
    *out_ms = *out_ms > TIME_MAX_MS ? TIME_MAX_MS : *out_ms;
    return true;
}

/* The arguments. False: there are none that say something; the whole is wanted, as it is. */
static bool read_times(const struct request *request, struct cut *cut)
{
    bool has_start = get_time(request, STR("start"), &cut->start_ms);
    bool has_end = get_time(request, STR("end"), &cut->end_ms) && cut->end_ms > cut->start_ms;

    if (!has_end) {
        cut->end_ms = CUT_TO_THE_END;
    }
    return has_start || has_end;
}

static enum flow mp4_answer(struct request *request)
{
    enum flow flow;
    struct file *file = request_open_file(request, &flow);

    if (file == NULL) {
        return flow;
    }
    struct cut cut = {.at_key_frame = settings_at(request)->start_key_frame};
    if (!read_times(request, &cut)) {
        return response_file(request, file);
    }
    struct film *film = arena_new(&request->arena, struct film);
    film->request = request;
    film->file = file;
    film->cut = cut;
    return answer_part(film);
}

/* ---- directives ---- */

static bool mp4_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings)
{
    content_set(scope_location(scope), mp4_answer, NULL);
    return true;
}

#define S struct mp4_settings
static const struct directive mp4_rows[] = {
    {"mp4", IN_LOCATION, CUSTOM(mp4_apply), ARGS(0, 0), .repeat = REPEAT_CUSTOM,
     .doc =
         "Serves films of the MP4 family, with the arguments start= and end= (seconds) the part between these times, as a film "
         "of its own. Films in fragments are sent whole."},
    {"mp4_buffer_size", IN_HTTP_ALL, SIZE(S, buffer_size), .initial = "512K",
     .doc = "Understood: a box is read by the size that it tells."},
    {"mp4_max_buffer_size", IN_HTTP_ALL, SIZE(S, max_buffer_size), .initial = "10M",
     .doc =
         "The largest moov box that is cut. Films with a larger one get 500, where a part of them is asked for."},
    {"mp4_start_key_frame", IN_HTTP_ALL, FLAG(S, start_key_frame), .initial = "off",
     .doc =
         "Puts what is needed to decode the first picture before it, from the last key frame on, and has players not show it."},
    {0},
};
#undef S

static const struct directive_table mp4_table = {
    .key = &mp4_key,
    .rows = mp4_rows,
    .contexts = IN_HTTP_LOCATION_SETTINGS,
    .size = sizeof(struct mp4_settings),
};
static const struct directive_table *const mp4_tables[] = {&mp4_table, NULL};

const struct module ngx_http_mp4_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_mp4_module",
    .kind = MODULE_HTTP,
    .tables = mp4_tables,
};
