/* The HTTP proxy module: its settings, its state per exchange, and the functions that its files
 * share. */
#ifndef HTTP_MODULES_BACKENDS_PROXY_PROXY_H
#define HTTP_MODULES_BACKENDS_PROXY_PROXY_H

#include <stdbool.h>
#include <stdint.h>

#include "conf/regex.h"
#include "conf/template.h"
#include "http/exchange/exchange.h"
#include "http/exchange/heads/request_head.h"
#include "base/chunked.h"

/* A proxy_pass URL, split into scheme, address and URI. */
struct proxy_url {
    struct str text;    /* as written: "http://up/x/" */
    struct str address; /* "up", "127.0.0.1:8080", "unix:/path" */
    struct str uri;     /* "/x/"; empty = not given */
    struct str
        host; /* $proxy_host: the address without the default port; "localhost" for a unix socket */
    struct str port; /* $proxy_port; empty for a unix socket */
    bool is_https;
};

/* The target of proxy_pass. */
struct proxy_target {
    struct proxy_url url;         /* if it has no variables */
    struct upstream_group *group; /* the servers of that URL */
    struct template *text;        /* if it has variables: the whole URL; else NULL */
    struct str prefix; /* the prefix of URIs that the URI replaces: the name of the location */
};

/* proxy_redirect, proxy_cookie_domain, proxy_cookie_path: a replacement. */
struct rewrite_rule {
    const struct template *text; /* the string that the value begins with or equals; NULL = regex */
    struct regex *regex;
    const struct template *replacement;
};

/* proxy_cookie_flags for matching cookies. */
struct flags_rule {
    const struct template *name; /* NULL = regex */
    struct regex *regex;
    struct vec flags; /* struct template * */
};

/* Settings of a location. */
struct proxy_settings {
    struct proxy_target *target; /* NULL: no proxy_pass here */
    struct template *method;     /* NULL = that of the client */
    unsigned version;            /* HTTP_1_0, HTTP_1_1, HTTP_2, HTTP_3 */
    struct vec set_headers;      /* struct key_template */
    unsigned header_inherit;     /* an enum list_inherit */
    struct template *set_body;   /* NULL = that of the client */
    struct vec redirects;        /* struct rewrite_rule */
    struct vec cookie_domains;   /* struct rewrite_rule */
    struct vec cookie_paths;     /* struct rewrite_rule */
    struct vec cookie_flags;     /* struct flags_rule */
    bool has_redirects;        /* proxy_redirect was given here or in an outer block, so there is no
                                  default */
    bool has_default_redirect; /* `default` was given in this very block */
    bool pass_trailers;
    bool proxy_protocol; /* send a PROXY header first, on connections that are not kept */
    bool adapts_fields;  /* derived: there are redirects or rules for cookies */
    int64_t headers_hash_max_size, headers_hash_bucket_size; /* accepted and ignored */
    struct head_plan *plan;                                  /* derived; NULL without proxy_pass */
    const struct protocol *protocol;                         /* derived, like `plan` */
};

/* How the end of a response body is determined. */
enum body_end {
    BODY_NONE,         /* no body */
    BODY_COUNTED,      /* Content-Length */
    BODY_CHUNKED,      /* the last chunk */
    BODY_UNTIL_CLOSED, /* the end of the connection */
};

/* State of one exchange, as exchange.state; in the request's arena. */
struct proxy_state {
    struct proxy_url url; /* of this request; uri is as sent, with arguments */
    struct str method;
    int64_t body_length; /* of the request body that is sent; -1 = none, or unknown */
    bool is_chunked;     /* the request body is sent in chunks */
    bool says_close; /* *_set_header sends "Connection: close": no request follows on this one */

    /* The response. */
    bool has_status;    /* its status line was read */
    bool may_stay_open; /* it allows the connection to be kept */
    bool is_at_trailers;
    enum body_end end;
    uint64_t left; /* remaining bytes of the body; UINT64_MAX if unknown */
    struct chunked chunked;
};

/* ---- url.c ---- */

/* Splits the text after the scheme into address and URI. */
void proxy_url_cut(struct str rest, struct proxy_url *url);
/* Fills host and port from address and scheme. */
void proxy_url_name(struct proxy_url *url);
/* Removes "http://" or "https://"; *is_https is set accordingly. False: another scheme. */
bool proxy_url_scheme(struct str *text, bool *is_https);

/* ---- request.c ---- */

/* Replaces *uri, that of proxy_pass, by the URI to request from the backend, with arguments. False:
 * it would be outside of the URI of proxy_pass. */
bool proxy_request_uri(struct request *request, const struct proxy_target *target, struct str *uri);
bool proxy_make_request(struct exchange *x);
/* The same for HTTP/2. */
bool proxy_make_h2_request(struct exchange *x);
/* The same for HTTP/3. */
bool proxy_make_h3_request(struct exchange *x);
/* Sends a PROXY header and the request header. */
void proxy_send_announced(struct exchange *x);
/* The PROXY header that describes the client. */
struct str proxy_announcement(struct exchange *x);
void proxy_send_body(struct exchange *x, const struct body_piece *piece, bool is_last);

/* ---- response.c ---- */

void proxy_begin_response(struct exchange *x);
enum head_result proxy_read_head(struct exchange *x);
enum body_result proxy_read_body(struct exchange *x, struct str *data);
enum body_result proxy_body_ended(struct exchange *x);

/* ---- redirect.c ---- */

bool proxy_redirect_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings);
/* Sets the default rule, if there is no proxy_redirect. */
void redirect_default(struct conf_scope *scope, struct proxy_settings *settings);
/* Adapts a value of Location or Refresh for the client. */
void redirect_adapt(struct exchange *x, struct field *field);

/* Parses "string replacement" into a rule (is_nocase: a regular expression is case-insensitive). */
bool rewrite_rule_read(struct conf_scope *scope, const struct conf_node *node, bool is_nocase,
                       struct rewrite_rule *rule);

/* ---- cookies.c ---- */

bool proxy_cookie_domain_apply(struct conf_scope *scope, const struct directive *row,
                               struct conf_node *node, void *settings);
bool proxy_cookie_path_apply(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *settings);
bool proxy_cookie_flags_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings);
/* Adapts a value of Set-Cookie for the client. */
void cookie_adapt(struct exchange *x, struct field *field);

/* ---- proxy.c ---- */

/* Begins a list of rules, or clears it for `off`. *is_off: no rule follows. False after conf_error:
 * `off` was combined with rules. */
bool rules_begin(struct conf_scope *scope, const struct directive *row,
                 const struct conf_node *node, struct vec *rules, bool *is_off);

/* Does this block have a proxy_pass above this line? */
bool proxy_pass_is_set(const struct conf_scope *scope);

#endif
