/* Settings of ngx_http_core_module about responses, at a location. A member without a comment is
 * the value of the directive of its name. */
#ifndef HTTP_ROUTING_RESPONSE_SETTINGS_H
#define HTTP_ROUTING_RESPONSE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "base/arena.h"
#include "conf/template.h"

/* Where a response goes when its status is one of the codes. */
struct error_page {
    unsigned status;         /* the code that is caught */
    int overwrite;           /* new status; -1 = keep, 0 = take the target's ("=") */
    struct template *target; /* "/path", "@name" or a URL */
};

enum if_modified_since { IMS_OFF, IMS_EXACT, IMS_BEFORE };
enum server_tokens { SERVER_TOKENS_OFF, SERVER_TOKENS_ON, SERVER_TOKENS_BUILD };

struct response_settings {
    bool absolute_redirect;
    bool server_name_in_redirect;
    bool port_in_redirect;
    bool msie_padding;
    bool msie_refresh;
    bool etag;
    bool chunked_transfer_encoding;
    unsigned if_modified_since;
    unsigned server_tokens;
    struct str server_tag;   /* replaces the name in the Server field and on error pages */
    bool hides_server;       /* server_tag off: neither of them is shown */
    struct str server_admin; /* whom to tell, on error pages */
    bool server_info;        /* error pages tell URL, server, date and server_admin */
    bool has_server_info;    /* server_info was written; else server_admin turns it on */
    int64_t max_ranges;      /* -1 = no limit */
    uint64_t postpone_output;
    uint64_t subrequest_output_buffer_size;
    struct vec error_pages; /* struct error_page */
    bool recursive_error_pages;
    struct vec early_hints; /* struct template * */
    struct template *post_action;
    /* Derived: "nginx/1.31.5", of the Server field and for error pages; empty = neither tells it.
     */
    struct str server_text;
};

#endif
