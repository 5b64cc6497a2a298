/* Status codes: reason phrases, and titles of the built-in pages. */
#include "http/message/status.h"

struct status_text {
    unsigned status;
    struct str phrase; /* in the status line */
    struct str title;  /* of the built-in page; empty = none */
};

#define ROW(status, phrase, title)                                                                 \
    {                                                                                              \
        status, STR_INIT(phrase), STR_INIT(title)                                                  \
    }

/* In ascending order. Phrases and titles are those of nginx, which tools and tests expect. */
static const struct status_text texts[] = {
    ROW(100, "Continue", ""),
    ROW(101, "Switching Protocols", ""),
    ROW(102, "Processing", ""),
    ROW(103, "Early Hints", ""),
    ROW(200, "OK", ""),
    ROW(201, "Created", ""),
    ROW(202, "Accepted", ""),
    ROW(204, "No Content", ""),
    ROW(206, "Partial Content", ""),
    ROW(301, "Moved Permanently", "301 Moved Permanently"),
    ROW(302, "Moved Temporarily", "302 Found"),
    ROW(303, "See Other", "303 See Other"),
    ROW(304, "Not Modified", ""),
    ROW(307, "Temporary Redirect", "307 Temporary Redirect"),
    ROW(308, "Permanent Redirect", "308 Permanent Redirect"),
    ROW(400, "Bad Request", "400 Bad Request"),
    ROW(401, "Unauthorized", "401 Authorization Required"),
    ROW(402, "Payment Required", "402 Payment Required"),
    ROW(403, "Forbidden", "403 Forbidden"),
    ROW(404, "Not Found", "404 Not Found"),
    ROW(405, "Not Allowed", "405 Not Allowed"),
    ROW(406, "Not Acceptable", "406 Not Acceptable"),
    ROW(407, "Proxy Authentication Required", "407 Proxy Authentication Required"),
    ROW(408, "Request Time-out", "408 Request Time-out"),
    ROW(409, "Conflict", "409 Conflict"),
    ROW(410, "Gone", "410 Gone"),
    ROW(411, "Length Required", "411 Length Required"),
    ROW(412, "Precondition Failed", "412 Precondition Failed"),
    ROW(413, "Request Entity Too Large", "413 Request Entity Too Large"),
    ROW(414, "Request-URI Too Large", "414 Request-URI Too Large"),
    ROW(415, "Unsupported Media Type", "415 Unsupported Media Type"),
    ROW(416, "Requested Range Not Satisfiable", "416 Requested Range Not Satisfiable"),
    ROW(421, "Misdirected Request", "421 Misdirected Request"),
    ROW(429, "Too Many Requests", "429 Too Many Requests"),
    ROW(494, "Bad Request", "400 Request Header Or Cookie Too Large"),
    ROW(495, "Bad Request", "400 The SSL certificate error"),
    ROW(496, "Bad Request", "400 No required SSL certificate was sent"),
    ROW(497, "Bad Request", "400 The plain HTTP request was sent to HTTPS port"),
    ROW(500, "Internal Server Error", "500 Internal Server Error"),
    ROW(501, "Not Implemented", "501 Not Implemented"),
    ROW(502, "Bad Gateway", "502 Bad Gateway"),
    ROW(503, "Service Temporarily Unavailable", "503 Service Temporarily Unavailable"),
    ROW(504, "Gateway Time-out", "504 Gateway Time-out"),
    ROW(505, "HTTP Version Not Supported", "505 HTTP Version Not Supported"),
    ROW(507, "Insufficient Storage", "507 Insufficient Storage"),
    ROW(508, "Loop Detected", "508 Loop Detected"),
};

static const struct status_text *status_text_find(unsigned status)
{
    size_t low = 0;
    size_t high = sizeof(texts) / sizeof(texts[0]);

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (texts[middle].status < status) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low < sizeof(texts) / sizeof(texts[0]) && texts[low].status == status) {
        return &texts[low];
    }
    return NULL;
}

struct str status_phrase(unsigned status)
{
    const struct status_text *text = status_text_find(status);

    return text == NULL ? STR_NONE : text->phrase;
}

struct str status_title(unsigned status)
{
    const struct status_text *text = status_text_find(status);

    return text == NULL ? STR_NONE : text->title;
}
