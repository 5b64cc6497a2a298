/* Bodies that the cache keeps, on their way to clients. */
#include "http/files/kept_body.h"

#include "http/files/file.h"

struct str kept_body_whole(const struct cache_access *access)
{
    struct cache_body body;

    cache_body_of(access, &body);
    return body.bytes;
}

bool response_send_kept(struct request *request, const struct cache_access *access, bool is_last)
{
    struct cache_body body;

    cache_body_of(access, &body);
    struct body_piece piece = {
        .bytes = body.bytes,
        .fd = body.bytes.data != NULL ? -1 : body.fd,
        .offset = (off_t) body.offset,
        .size = body.size,
        .release = cache_content_release,
        .release_arg = access->content,
    };
    cache_content_hold(access->content);
    return response_send_file(request, &piece, is_last);
}
