/* Bodies that a handler makes piece by piece, as the client takes them: none is in memory whole. */
#include <stdlib.h>

#include "event/loop.h"
#include "http/request/request.h"

#define PIECE_SIZE ((size_t) 32 * 1024) /* bytes that are made before they are given */

static bool maker_is_broken(const struct body_maker *maker)
{
    return maker->is_broken != NULL && *maker->is_broken;
}

/* One more piece. False: it was the last. *is_gone: the request was cancelled. MAY WAIT. */
static bool make_piece(const struct body_maker *maker, struct buf *out, bool *is_gone)
{
    bool has_more = true;

    while (has_more && out->len < PIECE_SIZE && !*is_gone && !maker_is_broken(maker)) {
        has_more = maker->make(maker->arg, out);
        *is_gone = !loop_share();
    }
    return has_more;
}

/* Gives the text, which is the response's then. MAY WAIT. False: the client is gone. */
static bool produced_give(struct request *request, struct buf *text, bool is_last)
{
    const struct body_piece piece = {.bytes = buf_str(text),
                                     .fd = -1,
                                     .release = free,
                                     .release_arg = text->data};

    *text = (struct buf){0};
    return response_send(request, piece.bytes.len == 0 ? NULL : &piece, is_last);
}

/* What is in `text` was made before; there is more. MAY WAIT. HANDLER_CLOSED: the client is gone.
 */
static enum handler_result give_all(struct request *request, const struct body_maker *maker,
                                    struct buf *text, bool ends)
{
    bool is_gone = false, has_more;

    do {
        has_more = make_piece(maker, text, &is_gone);
        if (is_gone || maker_is_broken(maker)) {
            buf_free(text);
            return is_gone ? HANDLER_CLOSED : HANDLER_CUT;
        }
        if (!produced_give(request, text, ends && !has_more)) {
            return HANDLER_CLOSED;
        }
    } while (has_more);
    return HANDLER_DONE;
}

enum handler_result response_produce(struct request *request, const struct body_maker *maker)
{
    struct buf text = {0};

    return give_all(request, maker, &text, true);
}

bool response_produce_part(struct request *request, const struct body_maker *maker)
{
    struct buf text = {0};

    return give_all(request, maker, &text, false) == HANDLER_DONE;
}

enum handler_result response_produced(struct request *request, unsigned status,
                                      struct str content_type, const struct body_maker *maker)
{
    struct response *response = &request->response;
    struct buf text = {0};
    bool is_gone = false;
    bool has_more = make_piece(maker, &text, &is_gone);

    if (maker_is_broken(maker) && !is_gone) {
        buf_free(&text);
        return request_fail(request, 500);
    }
    if (!has_more && !is_gone) {
        return response_gathered(request, status, content_type, &text);
    }
    response->status = status;
    response->content_type = content_type;
    response->content_length = -1;
    enum handler_result result = is_gone ? HANDLER_CLOSED : response_start(request);
    if (result != HANDLER_NEXT) {
        buf_free(&text);
        return result;
    }
    return give_all(request, maker, &text, true);
}
