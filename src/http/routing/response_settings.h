/* Settings of ngx_http_core_module about responses in a location. A member without a comment has
 * the value of the directive with its name. */
#ifndef HTTP_ROUTING_RESPONSE_SETTINGS_H
#define HTTP_ROUTING_RESPONSE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "base/arena.h"
#include "conf/template.h"

/* Redirects responses with one of these codes. */
struct error_page {
    unsigned status;         /* the code that is intercepted */
    int overwrite;           /* new status; -1 = unchanged, 0 = that of the target ("=") */
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
    bool hides_server;       /* server_tag off: the name is not shown */
    struct str server_admin; /* whom to contact, on error pages */
    bool server_info;        /* error pages show URL, server, date and server_admin */
    bool has_server_info;    /* server_info was set; otherwise server_admin turns it on */
    int64_t max_ranges;      /* -1 = unlimited */
    uint64_t postpone_output;
    uint64_t subrequest_output_buffer_size;
    struct vec error_pages; /* struct error_page */
    bool recursive_error_pages;
    struct vec early_hints; /* struct template * */
    struct template *post_action;
    /* Derived: "nginx/1.31.5", for the Server field and error pages; empty = not shown. */
    struct str server_text;
};

#endif
