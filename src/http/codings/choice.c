/* The choice of a content coding for responses that filters encode. */
#include "http/codings/choice.h"

#include <string.h>

#include "http/codings/rules.h"
#include "http/message/accept_encoding.h"
#include "http/request/request.h"

const struct content_coding coding_brotli = {.token = STR_INIT("br"),
                                             .suffix = STR_INIT(".br"),
                                             .rank = 1};
const struct content_coding coding_zstd = {.token = STR_INIT("zstd"),
                                           .suffix = STR_INIT(".zst"),
                                           .rank = 2};
const struct content_coding coding_gzip = {.token = STR_INIT("gzip"),
                                           .suffix = STR_INIT(".gz"),
                                           .rank = 3,
                                           .heeds_gzip_rules = true};

static struct str accepted_by(const struct request *request)
{
    const struct field *field = fields_get(&request->headers, FIELD_ACCEPT_ENCODING);

    return field == NULL ? STR_NONE : field->value;
}

/* The weight of "identity"; WEIGHT_NONE: it is not mentioned, so it is the last resort. */
static int identity_weight(struct str accepted)
{
    int weight = accept_encoding_weight(accepted, STR("identity"));

    return weight == WEIGHT_NONE && accept_encoding_weight(accepted, STR("*")) == 0 ? 0 : weight;
}

/* The weight of a coding in this Accept-Encoding; 0: it is not accepted, or identity is
 * preferred. */
static int weight_in(struct str accepted, struct str token)
{
    int weight = accept_encoding_weight(accepted, token);

    if (weight == WEIGHT_NONE && identity_weight(accepted) == 0) {
        weight = accept_encoding_weight(accepted, STR("*"));
    }
    return weight > 0 && weight >= identity_weight(accepted) ? weight : 0;
}

/* A cache of recent results. There are only a few common values of Accept-Encoding, mostly of
 * different lengths. */
#define REMEMBERED 16 /* entries, indexed by length */

struct said {
    const struct content_coding *coding; /* NULL: empty entry */
    int weight;
    unsigned length; /* of the Accept-Encoding text */
    char text[48];
};

static int weight_remembered(struct str accepted, const struct content_coding *coding)
{
    static struct said all[4][REMEMBERED];
    struct said *said = &all[coding->rank % 4][accepted.len % REMEMBERED];

    if (accepted.len > sizeof(said->text)) {
        return weight_in(accepted, coding->token);
    }
    if (said->coding != coding || said->length != accepted.len ||
        memcmp(said->text, accepted.data, accepted.len) != 0) {
        said->coding = coding;
        said->weight = weight_in(accepted, coding->token);
        said->length = (unsigned) accepted.len;
        memcpy(said->text, accepted.data, accepted.len);
    }
    return said->weight;
}

int request_coding_weight(struct request *request, const struct content_coding *coding)
{
    struct str accepted = accepted_by(request);

    if (request != request->main || accepted.len == 0) {
        return 0;
    }
    int weight = weight_remembered(accepted, coding);
    return weight != 0 && (!coding->heeds_gzip_rules || gzip_rules_allow(request)) ? weight : 0;
}

/* May this response be encoded, regardless of the client? */
static bool is_encodable(const struct request *request)
{
    const struct response *response = &request->response;
    const struct field *encoding = fields_get(&response->fields, FIELD_CONTENT_ENCODING);

    return request == request->main &&
           (response->status == 200 || response->status == 403 || response->status == 404) &&
           (encoding == NULL || encoding->value.len == 0) && response->framing != FRAMING_TUNNEL &&
           !response->keeps_coding;
}

/* Of the codings of the location, the one that the client prefers. */
static const struct content_coding *choose(struct request *request)
{
    const struct content_coding *best = NULL;
    int best_weight = 0;
    bool may_differ = false;

    for (const struct coding_hook **hook = request->location->encoders; *hook != NULL; hook++) {
        if ((*hook)->fits(request)) {
            int weight = request_coding_weight(request, (*hook)->coding);

            may_differ = true;
            if (weight > best_weight) {
                best = (*hook)->coding;
                best_weight = weight;
            }
        }
    }
    if (may_differ) {
        response_varies_by_encoding(request);
    }
    return best;
}

const struct content_coding *response_coding(struct request *request)
{
    struct response *response = &request->response;

    if (!response->is_coding_chosen) {
        response->is_coding_chosen = true;
        response->coding = is_encodable(request) ? choose(request) : NULL;
    }
    return response->coding;
}
