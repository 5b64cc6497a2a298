/* ngx_http_core_module: every directive of http, server and location that belongs to no other
 * module. One row is one directive. */
#include "http/config/core_values.h"
#include "http/config/lint.h"
#include "http/codings/rules.h"
#include "http/routing/hooks.h"
#include "http/client/listen.h"
#include "http/config/resolver.h"
#include "http/routing/body_settings.h"
#include "http/routing/connection_settings.h"
#include "http/routing/file_settings.h"
#include "http/routing/response_settings.h"
#include "http/routing/settings.h"
#include "http/v1/v1.h"
#include "http/variables/variables.h"
#include "server/module.h"

#define IN_ALL_AND_IF IN_HTTP_ALL | IN_LOCATION_IF

static const struct directive_word body_in_file_words[] = {{"off", BODY_IN_FILE_OFF},
                                                           {"on", BODY_IN_FILE_ON},
                                                           {"clean", BODY_IN_FILE_CLEAN},
                                                           {NULL, 0}};
static const struct directive_word if_modified_since_words[] = {{"off", IMS_OFF},
                                                                {"exact", IMS_EXACT},
                                                                {"before", IMS_BEFORE},
                                                                {NULL, 0}};
static const struct directive_word keepalive_disable_words[] = {{"none", KEEPALIVE_DISABLE_NONE},
                                                                {"msie6", KEEPALIVE_DISABLE_MSIE6},
                                                                {"safari",
                                                                 KEEPALIVE_DISABLE_SAFARI},
                                                                {NULL, 0}};
static const struct directive_word lingering_words[] = {{"off", LINGERING_OFF},
                                                        {"on", LINGERING_ON},
                                                        {"always", LINGERING_ALWAYS},
                                                        {NULL, 0}};
static const struct directive_word satisfy_words[] = {{"all", SATISFY_ALL},
                                                      {"any", SATISFY_ANY},
                                                      {NULL, 0}};
static const struct directive_word server_tokens_words[] = {{"off", SERVER_TOKENS_OFF},
                                                            {"on", SERVER_TOKENS_ON},
                                                            {"build", SERVER_TOKENS_BUILD},
                                                            {NULL, 0}};

/* ---- main: the http block itself ---- */

static const struct directive block_rows[] = {
    {"http", IN_MAIN, BLOCK(http_enter), ARGS(0, 0),
     .doc = "Contains the settings of all HTTP servers."},
    {0},
};

/* ---- http level only ---- */

#define M struct http_main
static const struct directive main_rows[] = {
    {"server", IN_HTTP, BLOCK(server_enter), ARGS(0, 0), .repeat = REPEAT_APPEND,
     .doc = "Defines a virtual server, which is selected by address, port and name."},
    {"server_names_hash_bucket_size", IN_HTTP, NUMBER(M, server_names_hash_bucket_size),
     .initial = "64", .doc = "Accepted and ignored: the tables of names grow as needed."},
    {"server_names_hash_max_size", IN_HTTP, NUMBER(M, server_names_hash_max_size), .initial = "512",
     .doc = "Accepted and ignored: the tables of names grow as needed."},
    {"variables_hash_bucket_size", IN_HTTP, NUMBER(M, variables_hash_bucket_size),
     .apply = conf_hash_size_check, .initial = "64",
     .doc = "Accepted and ignored: the table of variables grows as needed."},
    {"variables_hash_max_size", IN_HTTP, NUMBER(M, variables_hash_max_size),
     .apply = conf_hash_size_check, .initial = "1024",
     .doc = "Accepted and ignored: the table of variables grows as needed."},
    {0},
};
#undef M

static const struct directive_table http_main_table = {.key = &http_main_key,
                                                       .rows = main_rows,
                                                       .contexts = IN_HTTP,
                                                       .size = sizeof(struct http_main),
                                                       .module_name = "ngx_http_core_module"};

/* ---- server level ---- */

#define S struct http_server
static const struct directive server_rows[] = {
    {"listen", IN_SERVER, CUSTOM(listen_apply), ARGS(1, ARGS_ANY), .repeat = REPEAT_APPEND,
     .syntax = "address[:port] | port | unix:path [parameters]",
     .doc = "Address and port, or UNIX domain socket, on which the server accepts "
            "connections."},
    {"server_name", IN_SERVER, CUSTOM(server_name_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND, .syntax = "name ...",
     .doc = "Names of the server: exact names, `*.suffix`, `prefix.*`, `.suffix` (the name "
            "itself and all names below it) or `~regex`."},
    {"client_header_buffer_size", IN_HTTP | IN_SERVER, SIZE(S, client_header_buffer_size),
     .initial = "1k",
     .doc = "Memory added to the total that large_client_header_buffers allows for a "
            "request header."},
    {"large_client_header_buffers", IN_HTTP | IN_SERVER, BUFFERS(S, large_client_header_buffers),
     .initial = "4 8k", .apply = check_header_buffers,
     .doc = "Maximum length of the request line and of each header line (size); all of "
            "them together may take `number` times that."},
    {"client_header_timeout", IN_HTTP | IN_SERVER, MSEC(S, client_header_timeout_ms),
     .initial = "60s", .doc = "Time within which the client must send the whole request header."},
    {"connection_pool_size", IN_HTTP | IN_SERVER, SIZE(S, connection_pool_size), .initial = "512",
     .min = 64, .max = 1 << 30,
     .doc = "Accepted and ignored: the memory of a connection grows as needed."},
    {"request_pool_size", IN_HTTP | IN_SERVER, SIZE(S, request_pool_size), .initial = "4k",
     .min = 64, .max = 1 << 30,
     .doc = "Accepted and ignored: the memory of a request grows as needed."},
    {"max_headers", IN_HTTP | IN_SERVER, NUMBER(S, max_headers), .initial = "1000",
     .doc = "Maximum number of header lines in a request."},
    {"max_self_hops", IN_HTTP | IN_SERVER, NUMBER(S, max_self_hops), .initial = "10", .min = 0,
     .max = 250,
     .doc = "Maximum number of times that a request may return to this server because the "
            "server is its own backend. Further ones are answered with 508. nginx does not "
            "have this directive."},
    {"ignore_invalid_headers", IN_HTTP | IN_SERVER, FLAG(S, ignore_invalid_headers),
     .initial = "on",
     .doc = "Whether header fields are ignored if their names contain characters other "
            "than letters, digits and hyphens."},
    {"merge_slashes", IN_HTTP | IN_SERVER, FLAG(S, merge_slashes), .initial = "on",
     .doc = "Whether adjacent slashes in the path are merged into one."},
    {"underscores_in_headers", IN_HTTP | IN_SERVER, FLAG(S, underscores_in_headers),
     .initial = "off",
     .doc = "Whether underscores are allowed in the names of request header fields."},
    {"client_body_early_read", IN_HTTP | IN_SERVER, TEMPLATES(S, early_read),
     .repeat = REPEAT_APPEND,
     .doc = "Reads the request body before a location is selected if at least one value is "
            "neither empty nor 0."},
    {0},
};
#undef S

static void server_fresh(void *settings)
{
    struct http_server *server = settings;

    server->names = (struct vec){0};
    server->listens = (struct vec){0};
    server->named = (struct map){0};
}

static const struct directive_table http_server_table = {.key = &http_server_key,
                                                         .rows = server_rows,
                                                         .contexts = IN_HTTP | IN_SERVER,
                                                         .size = sizeof(struct http_server),
                                                         .fresh = server_fresh,
                                                         .finish = server_settings_finish,
                                                         .module_name = "ngx_http_core_module"};

/* ---- location level ---- */

#define L struct http_location
static const struct directive location_rows[] = {
    /* Blocks. */
    {"location", IN_SERVER | IN_LOCATION, BLOCK(location_enter), ARGS(1, 2),
     .repeat = REPEAT_APPEND, .syntax = "[= | ~ | ~* | ^~] uri | @name",
     .doc = "Contains settings for requests with a matching URI."},
    {"limit_except", IN_LOCATION, BLOCK(limit_except_enter), ARGS(1, ARGS_ANY),
     .syntax = "method ...",
     .doc = "Contains settings for all methods except the given ones. GET includes HEAD."},
    {"internal", IN_LOCATION, CUSTOM(internal_apply), ARGS(0, 0),
     .doc = "Makes the location available to internal requests only; other requests are "
            "answered with 404."},

    /* Access. */
    {"satisfy", IN_HTTP_ALL, ENUM(L, satisfy, satisfy_words), .initial = "all",
     .doc = "Whether all access checks must allow a request (`all`) or one is sufficient "
            "(`any`)."},
    {"satisfy_any", IN_HTTP_ALL, CUSTOM(satisfy_any_apply), ARGS(1, 1), .replaced_by = "satisfy",
     .syntax = "on | off", .doc = "Old form of `satisfy any`."},
    {"auth_delay", IN_HTTP_ALL, MSEC(L, auth_delay_ms), .initial = "0s",
     .doc = "Time by which 401 responses are delayed."},
    {"request_memory_limit", IN_HTTP_ALL, SIZE(L, request_memory_limit), .initial = "16m",
     .doc = "Maximum memory that one request uses for its header, its variables and data "
            "derived from them, including subrequests. If a request exceeds it, the "
            "response is 500 and the connection is closed. Request bodies in memory "
            "(client_body_buffer_size) and response buffers are not counted. 0 disables "
            "the limit. nginx does not have this directive."},

    /* Logs and names. */
    {"resolver", IN_HTTP_ALL, CUSTOM_FIELD(L, resolver, resolver_apply), ARGS(1, ARGS_ANY),
     .syntax = RESOLVER_SYNTAX,
     .doc = "Name servers that resolve names at run time, such as those of backends and "
            "OCSP responders. Without an address, the name servers in /etc/resolv.conf are "
            "used."},
    {"resolver_file", IN_HTTP_ALL, CUSTOM_FIELD(L, resolver, resolver_file_apply), ARGS(1, 1),
     .syntax = "file",
     .doc = "File in the format of /etc/resolv.conf from which name servers are read."},
    RESOLVER_TIMEOUT_ROW(IN_HTTP_ALL, L),
    {"error_log", IN_HTTP_ALL, CUSTOM_FIELD(L, error_log, error_log_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND,
     .syntax = "file | stderr | syslog:parameters | pipe:command [level] [json]",
     .doc = "File or other destination of error messages, and the lowest level that is "
            "logged."},
    {"error_log_tag", IN_HTTP_ALL, CUSTOM_FIELD(L, error_log_tags, error_log_tag_apply), ARGS(2, 2),
     .repeat = REPEAT_APPEND, .syntax = "name value",
     .doc = "Adds `name: \"value\"` to error log messages about requests; in JSON, it is a "
            "member of the object. The value may contain variables."},
    {"retry_cached_connection", IN_HTTP_ALL, FLAG(L, retry_cached_connection), .initial = "on",
     .doc = "Whether a request is sent again to the same server, on a new connection, if a "
            "kept-alive connection is closed before the first byte of the response. With "
            "`off`, only `*_next_upstream` decides. From Tengine."},
    {"log_subrequest", IN_HTTP_ALL, FLAG(L, log_subrequest), .initial = "off",
     .doc = "Whether subrequests are logged in the access log."},
    {"request_time_cache", IN_HTTP_ALL, FLAG(L, request_time_cache), .initial = "on",
     .doc = "Whether $request_time and related variables use the time at which the "
            "iteration of the event loop began. With `off`, the clock is read each time."},
    {0},
};
#undef L

/* Files. */
#define F struct file_settings
static const struct directive file_rows[] = {
    {"root", IN_ALL_AND_IF, CUSTOM_FIELD(F, root, root_apply), ARGS(1, 1), .initial = "html",
     .repeat = REPEAT_CUSTOM, .syntax = "path",
     .doc = "Directory to which the URI is appended to form the path of a file."},
    {"alias", IN_LOCATION, CUSTOM(alias_apply), ARGS(1, 1), .repeat = REPEAT_CUSTOM,
     .syntax = "path", .doc = "Path that replaces the location's prefix in the URI."},
    {"types", IN_HTTP_ALL, FREE_FORM(types_apply), ARGS(0, 0), .repeat = REPEAT_APPEND,
     .doc = "Maps file name extensions to media types."},
    {"types_hash_bucket_size", IN_HTTP_ALL, NUMBER(F, types_hash_bucket_size),
     .apply = conf_hash_size_check, .initial = "64",
     .doc = "Accepted and ignored: the table of types grows as needed."},
    {"types_hash_max_size", IN_HTTP_ALL, NUMBER(F, types_hash_max_size),
     .apply = conf_hash_size_check, .initial = "1024",
     .doc = "Accepted and ignored: the table of types grows as needed."},
    {"default_type", IN_HTTP_ALL, STRING(F, default_type), .initial = "text/plain",
     .doc = "Media type of files whose extension is unknown."},
    {"sendfile", IN_ALL_AND_IF, FLAG(F, sendfile), .initial = "off",
     .doc = "Whether files are sent with sendfile()."},
    {"sendfile_max_chunk", IN_HTTP_ALL, SIZE(F, sendfile_max_chunk), .initial = "2m",
     .doc = "Maximum number of bytes of a file that one system call sends; 0 disables the "
            "limit."},
    {"read_ahead", IN_HTTP_ALL, SIZE(F, read_ahead), .initial = "0",
     .doc = "Advises the kernel to read this many bytes in advance from files that are "
            "larger."},
    {"aio", IN_HTTP_ALL, CUSTOM_FIELD(F, aio, aio_apply), ARGS(1, 1), .initial = "off",
     .syntax = "on | off | threads[=pool]",
     .doc = "Whether files are read on a thread pool if their data is not in the page "
            "cache."},
    {"aio_write", IN_HTTP_ALL, FLAG(F, aio_write), .initial = "off",
     .doc = "Whether temporary files with responses of backends are also written on "
            "threads; requires `aio threads`."},
    {"directio", IN_HTTP_ALL, CUSTOM_FIELD(F, directio, directio_apply), ARGS(1, 1),
     .initial = "off", .syntax = "size | off",
     .doc = "Reads files of at least this size with O_DIRECT, bypassing the page cache."},
    {"directio_alignment", IN_HTTP_ALL, OFFSET(F, directio_alignment), .initial = "512",
     .doc = "Alignment of reads with O_DIRECT."},
    {"disable_symlinks", IN_HTTP_ALL, CUSTOM_FIELD(F, disable_symlinks, disable_symlinks_apply),
     ARGS(1, 2), .initial = "off", .syntax = "off | on | if_not_owner [from=part]",
     .doc = "Whether paths that contain symbolic links are refused; with `if_not_owner`, "
            "only if a link and its target have different owners. Components in `from` are "
            "not checked."},
    {"open_file_cache", IN_HTTP_ALL, CUSTOM_FIELD(F, open_file_cache, open_file_cache_apply),
     ARGS(1, 2), .initial = "off", .syntax = "off | max=number [inactive=time]",
     .doc = "Whether descriptors and metadata of files are cached."},
    {"open_file_cache_valid", IN_HTTP_ALL, SEC(F, open_file_cache_valid_s), .initial = "60s",
     .doc = "Time after which a cached file is checked again."},
    {"open_file_cache_retest", IN_HTTP_ALL, SEC(F, open_file_cache_valid_s),
     .replaced_by = "open_file_cache_valid", .doc = "Old name of open_file_cache_valid."},
    {"open_file_cache_min_uses", IN_HTTP_ALL, NUMBER(F, open_file_cache_min_uses), .initial = "1",
     .doc = "Number of uses within `inactive` after which the descriptor of a file is kept "
            "open."},
    {"open_file_cache_errors", IN_HTTP_ALL, FLAG(F, open_file_cache_errors), .initial = "off",
     .doc = "Whether errors of file lookups are cached."},
    {"open_file_cache_events", IN_HTTP_ALL, FLAG(F, open_file_cache_events), .initial = "off",
     .doc = "Accepted and ignored: it only has an effect with kqueue, as in nginx."},
    {"log_not_found", IN_HTTP_ALL, FLAG(F, log_not_found), .initial = "on",
     .doc = "Whether files that are not found are logged."},
    {0},
};
#undef F

/* Request bodies. */
#define B struct body_settings
static const struct directive body_rows[] = {
    {"client_max_body_size", IN_HTTP_ALL, OFFSET(B, client_max_body_size), .initial = "1m",
     .doc = "Maximum size of a request body; larger ones are answered with 413. 0 disables "
            "the limit."},
    {"client_body_buffer_size", IN_HTTP_ALL, SIZE(B, client_body_buffer_size), .initial = "16k",
     .doc = "Size of the memory buffer for a request body; the rest is written to a "
            "temporary file."},
    {"client_body_timeout", IN_HTTP_ALL, MSEC(B, client_body_timeout_ms), .initial = "60s",
     .doc = "Maximum time between two reads of a request body."},
    {"client_body_total_timeout", IN_HTTP_ALL, MSEC(B, client_body_total_timeout_ms),
     .initial = "0",
     .doc = "Maximum total time for receiving a request body; a slower client gets 408. "
            "Time during which nothing is read because a backend is slow is not counted. 0 "
            "disables the limit. nginx does not have this directive."},
    {"client_body_min_rate", IN_HTTP_ALL, CUSTOM_FIELD(B, client_body_min_rate, min_rate_apply),
     ARGS(1, 2), .initial = "0", .syntax = "bytes [window=time]",
     .doc = "Minimum rate, in bytes per second, at which a client must send a request "
            "body. It is measured over each `window` (10s by default) of the time spent "
            "waiting for the client; a slower client gets 408. Streams of one connection "
            "share the rate. 0 disables the limit. nginx does not have this directive."},
    {"client_body_in_file_only", IN_HTTP_ALL, ENUM(B, client_body_in_file_only, body_in_file_words),
     .initial = "off",
     .doc = "Whether each request body is written to a file; the file is kept (`on`) or "
            "removed after the request (`clean`)."},
    {"client_body_in_single_buffer", IN_HTTP_ALL, FLAG(B, client_body_in_single_buffer),
     .initial = "off", .doc = "Accepted and ignored: a body in memory is always in one piece."},
    {"client_body_buffers", IN_HTTP_ALL, OBSOLETE, ARGS(2, 2), .syntax = "number size",
     .doc = "From Tengine, ignored since Tengine 2.3: see client_body_buffer_size."},
    {"client_body_postpone_size", IN_HTTP_ALL, OBSOLETE, ARGS(1, 1), .syntax = "size",
     .doc = "From Tengine, ignored since Tengine 2.3: bodies are passed on as they arrive."},
    {"client_body_temp_path", IN_HTTP_ALL,
     CUSTOM_FIELD(B, client_body_temp_path, client_body_temp_path_apply), ARGS(1, 4),
     .syntax = "path [level1 [level2 [level3]]]",
     .doc = "Directory for temporary files with request bodies, and up to three levels of "
            "subdirectories."},
    {0},
};
#undef B

/* Connections. */
#define C struct connection_settings
static const struct directive connection_rows[] = {
    {"tcp_nopush", IN_HTTP_ALL, FLAG(C, tcp_nopush), .initial = "off",
     .doc = "Accepted and ignored: the header and the beginning of a file are always sent "
            "in one packet."},
    {"tcp_nodelay", IN_HTTP_ALL, FLAG(C, tcp_nodelay), .initial = "on",
     .doc = "Whether TCP_NODELAY is set, so that small packets are sent without delay."},
    {"send_timeout", IN_HTTP_ALL, MSEC(C, send_timeout_ms), .initial = "60s",
     .doc = "Maximum time between two writes of a response to a client."},
    {"send_min_rate", IN_HTTP_ALL, CUSTOM_FIELD(C, send_min_rate, min_rate_apply), ARGS(1, 2),
     .initial = "0", .syntax = "bytes [window=time]",
     .doc = "Minimum rate, in bytes per second, at which a client must read a response. It "
            "is measured over each `window` (10s by default) of the time spent waiting for "
            "the client; the connection of a slower client, or its stream, is closed. "
            "Streams of one connection share the rate. 0 disables the limit. nginx does "
            "not have this directive."},
    {"send_lowat", IN_HTTP_ALL, SIZE(C, send_lowat), .initial = "0",
     .doc = "Accepted and ignored: Linux does not support SO_SNDLOWAT, as in nginx."},
    {"keepalive_timeout", IN_HTTP_ALL,
     CUSTOM_FIELD(C, keepalive_timeout_ms, keepalive_timeout_apply), ARGS(1, 2), .initial = "75s",
     .syntax = "timeout [header_timeout]",
     .doc = "Time for which an idle connection is kept open; 0 disables keep-alive. The "
            "second value is sent in the field Keep-Alive."},
    {"keepalive_min_timeout", IN_HTTP_ALL, MSEC(C, keepalive_min_timeout_ms), .initial = "0",
     .doc = "Minimum age at which idle connections are closed during a graceful shutdown; "
            "younger ones stay open until they reach it."},
    {"keepalive_time", IN_HTTP_ALL, MSEC(C, keepalive_time_ms), .initial = "1h",
     .doc = "Age at which a connection is closed after its current response."},
    {"keepalive_requests", IN_HTTP_ALL, NUMBER(C, keepalive_requests), .initial = "1000",
     .doc = "Number of requests after which a connection is closed."},
    {"keepalive_disable", IN_HTTP_ALL, BITS(C, keepalive_disable, keepalive_disable_words),
     .initial = "msie6", .repeat = REPEAT_APPEND,
     .doc = "Browsers for which keep-alive is disabled."},
    {"lingering_close", IN_HTTP_ALL, ENUM(C, lingering_close, lingering_words), .initial = "on",
     .doc = "Whether further data from the client is read and discarded before its "
            "connection is closed."},
    {"lingering_time", IN_HTTP_ALL, MSEC(C, lingering_time_ms), .initial = "30s",
     .doc = "Maximum time of a lingering close."},
    {"lingering_timeout", IN_HTTP_ALL, MSEC(C, lingering_timeout_ms), .initial = "5s",
     .doc = "Time without data from the client after which a lingering close ends."},
    {"reset_timedout_connection", IN_HTTP_ALL, FLAG(C, reset_timedout_connection), .initial = "off",
     .doc = "Whether connections that timed out are closed with a TCP reset."},
    {"limit_rate", IN_ALL_AND_IF, TEMPLATE_SIZE(C, limit_rate), .initial = "0",
     .doc = "Maximum rate, in bytes per second, at which the response to a request is "
            "sent. 0 disables the limit."},
    {"limit_rate_after", IN_ALL_AND_IF, TEMPLATE_SIZE(C, limit_rate_after), .initial = "0",
     .doc = "Number of bytes that are sent before limit_rate applies."},
    {0},
};
#undef C

/* Responses. */
#define R struct response_settings
static const struct directive response_rows[] = {
    {"absolute_redirect", IN_HTTP_ALL, FLAG(R, absolute_redirect), .initial = "on",
     .doc = "Whether redirects generated by the server are absolute."},
    {"server_name_in_redirect", IN_HTTP_ALL, FLAG(R, server_name_in_redirect), .initial = "off",
     .doc = "Whether redirects contain the first server_name instead of the host of the "
            "request."},
    {"optimize_server_names", IN_HTTP | IN_SERVER, FLAG(R, server_name_in_redirect),
     .replaced_by = "server_name_in_redirect", .doc = "Old name of server_name_in_redirect."},
    {"port_in_redirect", IN_HTTP_ALL, FLAG(R, port_in_redirect), .initial = "on",
     .doc = "Whether redirects contain the port."},
    {"msie_padding", IN_HTTP_ALL, FLAG(R, msie_padding), .initial = "on",
     .doc = "Whether built-in error pages are padded to 512 bytes for browsers that hide "
            "shorter ones."},
    {"msie_refresh", IN_HTTP_ALL, FLAG(R, msie_refresh), .initial = "off",
     .doc = "Whether MSIE gets a page with a refresh instead of a redirect."},
    {"etag", IN_HTTP_ALL, FLAG(R, etag), .initial = "on",
     .doc = "Whether ETag is added to responses with static files."},
    {"chunked_transfer_encoding", IN_HTTP_ALL, FLAG(R, chunked_transfer_encoding), .initial = "on",
     .doc = "Whether responses of unknown length use chunked transfer coding in HTTP/1.1."},
    {"if_modified_since", IN_HTTP_ALL, ENUM(R, if_modified_since, if_modified_since_words),
     .initial = "exact",
     .doc = "How the modification time of a response is compared with If-Modified-Since: "
            "not at all (`off`), for an exact match (`exact`), or for an earlier or equal "
            "time (`before`)."},
    {"server_tokens", IN_HTTP_ALL, ENUM(R, server_tokens, server_tokens_words), .initial = "on",
     .doc = "Whether the field Server and error pages show the version."},
    {"server_tag", IN_HTTP_ALL, CUSTOM_FIELD(R, server_tag, server_tag_apply), ARGS(1, 1),
     .syntax = "off | text",
     .doc = "Name of the server in the field Server and on error pages; `off` removes it."},
    {"server_info", IN_HTTP_ALL, FLAG(R, server_info), .initial = "off", .apply = server_info_check,
     .doc = "Whether built-in error pages show URL, server, date and server_admin; "
            "server_admin enables it."},
    {"server_admin", IN_HTTP | IN_SERVER, STRING(R, server_admin),
     .doc = "Contact address that built-in error pages show, unless server_info is off."},
    {"max_ranges", IN_HTTP_ALL, NUMBER(R, max_ranges), .initial = "2147483647",
     .doc = "Maximum number of ranges in a request; with more, the whole response is sent. "
            "0 disables ranges."},
    {"postpone_output", IN_HTTP_ALL, SIZE(R, postpone_output), .initial = "1460",
     .doc = "Accepted and ignored: output is collected during each iteration of the event "
            "loop."},
    {"subrequest_output_buffer_size", IN_HTTP_ALL, SIZE(R, subrequest_output_buffer_size),
     .initial = "4k", .doc = "Maximum size of a subrequest's response that is kept in memory."},
    {"error_page", IN_ALL_AND_IF, CUSTOM_FIELD(R, error_pages, error_page_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND, .syntax = "code ... [=[response]] uri | default",
     .doc = "URI or response that is sent for the given status codes."},
    {"recursive_error_pages", IN_HTTP_ALL, FLAG(R, recursive_error_pages), .initial = "off",
     .doc = "Whether the response of an error page may itself be replaced by an error page."},
    {"early_hints", IN_HTTP_ALL, TEMPLATES(R, early_hints), .repeat = REPEAT_APPEND,
     .doc = "Whether 103 (Early Hints) responses of backends are passed to the client; "
            "they are if at least one value is neither empty nor 0."},
    {"post_action", IN_ALL_AND_IF, TEMPLATE(R, post_action),
     .doc = "URI or named location that is processed after the response has been sent."},
    {0},
};
#undef R

static const struct directive_table file_table = {.key = &file_settings_key,
                                                  .rows = file_rows,
                                                  .contexts = IN_HTTP_LOCATION_SETTINGS,
                                                  .size = sizeof(struct file_settings),
                                                  .module_name = "ngx_http_core_module"};

static const struct directive_table body_table = {.key = &body_settings_key,
                                                  .rows = body_rows,
                                                  .contexts = IN_HTTP_LOCATION_SETTINGS,
                                                  .size = sizeof(struct body_settings),
                                                  .finish = body_settings_finish,
                                                  .module_name = "ngx_http_core_module"};

static const struct directive_table connection_table = {.key = &connection_settings_key,
                                                        .rows = connection_rows,
                                                        .contexts = IN_HTTP_LOCATION_SETTINGS,
                                                        .size = sizeof(struct connection_settings),
                                                        .finish = connection_settings_finish,
                                                        .module_name = "ngx_http_core_module"};

static const struct directive_table response_table = {.key = &response_settings_key,
                                                      .rows = response_rows,
                                                      .contexts = IN_HTTP_LOCATION_SETTINGS,
                                                      .size = sizeof(struct response_settings),
                                                      .finish = response_settings_finish,
                                                      .module_name = "ngx_http_core_module"};

static const struct directive_table http_location_table = {.key = &http_location_key,
                                                           .rows = location_rows,
                                                           .contexts = IN_HTTP_LOCATION_SETTINGS,
                                                           .size = sizeof(struct http_location),
                                                           .fresh = location_fresh,
                                                           .finish = location_settings_finish,
                                                           .module_name = "ngx_http_core_module"};

static const struct directive_table *const core_tables[] =
    {&http_main_table,  &http_server_table, &http_location_table, &file_table, &body_table,
     &connection_table, &response_table,    &http_gzip_table,     NULL};

static const struct http_module core_hooks = {.variables = core_variables,
                                              .protocol = &v1_protocol};

const struct module ngx_http_core_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_core_module",
    .kind = MODULE_HTTP,
    .tables = core_tables,
    .hooks = &core_hooks,
};

/* The manual of the core also lists Tengine's optional variables. */
static const struct variable *http_variables_of(const struct module *module, unsigned list)
{
    const struct http_module *http = module->hooks;
    const struct variable *optional = module == &ngx_http_core_module ? optional_variables : NULL;

    if (module->kind != MODULE_HTTP || http == NULL) {
        return NULL;
    }
    return list == 0 ? http->variables : list == 1 ? optional : NULL;
}

const struct module ngx_http_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_module",
    .kind = MODULE_CORE,
    .table = {.rows = block_rows},
    .configured = http_configured,
    .worker_quit = http_worker_quit,
    .worker_abort = http_worker_abort,
    .variables_of = http_variables_of,
    .lint_rules = http_lint_rules,
};
