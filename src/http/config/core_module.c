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
    {"http", IN_MAIN, BLOCK(http_enter), ARGS(0, 0), .doc = "The settings of all HTTP servers."},
    {0},
};

/* ---- http level only ---- */

#define M struct http_main
static const struct directive main_rows[] = {
    {"server", IN_HTTP, BLOCK(server_enter), ARGS(0, 0), .repeat = REPEAT_APPEND,
     .doc = "A virtual server, selected by address, port and name."},
    {"server_names_hash_bucket_size", IN_HTTP, NUMBER(M, server_names_hash_bucket_size),
     .initial = "64", .doc = "Accepted and ignored: the tables of names size themselves."},
    {"server_names_hash_max_size", IN_HTTP, NUMBER(M, server_names_hash_max_size), .initial = "512",
     .doc = "Accepted and ignored: the tables of names size themselves."},
    {"variables_hash_bucket_size", IN_HTTP, NUMBER(M, variables_hash_bucket_size),
     .apply = conf_hash_size_check, .initial = "64",
     .doc = "Accepted and ignored: the table of variables sizes itself."},
    {"variables_hash_max_size", IN_HTTP, NUMBER(M, variables_hash_max_size),
     .apply = conf_hash_size_check, .initial = "1024",
     .doc = "Accepted and ignored: the table of variables sizes itself."},
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
     .doc = "An address that this server answers on."},
    {"server_name", IN_SERVER, CUSTOM(server_name_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND, .syntax = "name ...",
     .doc = "Names of this server: exact, *.suffix, prefix.*, .both or ~regex."},
    {"client_header_buffer_size", IN_HTTP | IN_SERVER, SIZE(S, client_header_buffer_size),
     .initial = "1k", .doc = "Adds to the room for a request head."},
    {"large_client_header_buffers", IN_HTTP | IN_SERVER, BUFFERS(S, large_client_header_buffers),
     .initial = "4 8k", .apply = check_header_buffers,
     .doc =
         "Longest request line or header line (size), and how many times that all of a head may take (number)."},
    {"client_header_timeout", IN_HTTP | IN_SERVER, MSEC(S, client_header_timeout_ms),
     .initial = "60s", .doc = "Time for a whole request head."},
    {"connection_pool_size", IN_HTTP | IN_SERVER, SIZE(S, connection_pool_size), .initial = "512",
     .min = 64, .max = 1 << 30,
     .doc = "Accepted and ignored: memory of a connection grows by itself."},
    {"request_pool_size", IN_HTTP | IN_SERVER, SIZE(S, request_pool_size), .initial = "4k",
     .min = 64, .max = 1 << 30,
     .doc = "Accepted and ignored: memory of a request grows by itself."},
    {"max_headers", IN_HTTP | IN_SERVER, NUMBER(S, max_headers), .initial = "1000",
     .doc = "Most header lines of a request."},
    {"max_self_hops", IN_HTTP | IN_SERVER, NUMBER(S, max_self_hops), .initial = "10", .min = 0,
     .max = 250,
     .doc = "How often a request may come to this server from this server itself, which is its own "
            "backend then; one more and it is answered 508."},
    {"ignore_invalid_headers", IN_HTTP | IN_SERVER, FLAG(S, ignore_invalid_headers),
     .initial = "on",
     .doc =
         "Drops header lines whose names hold other characters than letters, digits and hyphens."},
    {"merge_slashes", IN_HTTP | IN_SERVER, FLAG(S, merge_slashes), .initial = "on",
     .doc = "Makes one slash of several in the path."},
    {"underscores_in_headers", IN_HTTP | IN_SERVER, FLAG(S, underscores_in_headers),
     .initial = "off", .doc = "Takes the underscore for a usual character of header names."},
    {"client_body_early_read", IN_HTTP | IN_SERVER, TEMPLATES(S, early_read),
     .repeat = REPEAT_APPEND,
     .doc =
         "Reads the request body before a location is chosen, when any value is not empty and not 0."},
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
     .doc = "Settings for URIs that match."},
    {"limit_except", IN_LOCATION, BLOCK(limit_except_enter), ARGS(1, ARGS_ANY),
     .syntax = "method ...", .doc = "Settings for all methods but these. GET means HEAD, too."},
    {"internal", IN_LOCATION, CUSTOM(internal_apply), ARGS(0, 0),
     .doc = "Answers 404 to requests that come from outside."},

    /* Access. */
    {"satisfy", IN_HTTP_ALL, ENUM(L, satisfy, satisfy_words), .initial = "all",
     .doc = "Must all access checks agree, or is one enough?"},
    {"satisfy_any", IN_HTTP_ALL, CUSTOM(satisfy_any_apply), ARGS(1, 1), .replaced_by = "satisfy",
     .syntax = "on | off", .doc = "Old form of satisfy any."},
    {"auth_delay", IN_HTTP_ALL, MSEC(L, auth_delay_ms), .initial = "0s",
     .doc = "Delay of 401 responses."},
    {"request_memory_limit", IN_HTTP_ALL, SIZE(L, request_memory_limit), .initial = "16m",
     .doc =
         "Most memory that one request takes for its head, its variables and what is made of them, subrequests "
         "included; beyond it is answered with 500, and its connection closed. A body that is kept in memory "
         "(client_body_buffer_size) does not count, nor do buffers of answers. 0: no limit."},

    /* Logs and names. */
    {"resolver", IN_HTTP_ALL, CUSTOM_FIELD(L, resolver, resolver_apply), ARGS(1, ARGS_ANY),
     .syntax = RESOLVER_SYNTAX,
     .doc =
         "Name servers, for names that are looked up while the service runs: those of backends and of OCSP "
         "responders. Without an address: those of /etc/resolv.conf."},
    {"resolver_file", IN_HTTP_ALL, CUSTOM_FIELD(L, resolver, resolver_file_apply), ARGS(1, 1),
     .syntax = "file", .doc = "Name servers out of a file like /etc/resolv.conf."},
    RESOLVER_TIMEOUT_ROW(IN_HTTP_ALL, L),
    {"error_log", IN_HTTP_ALL, CUSTOM_FIELD(L, error_log, error_log_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND,
     .syntax = "file | stderr | syslog:parameters | pipe:command [level] [json]",
     .doc = "Where errors of requests are logged."},
    {"error_log_tag", IN_HTTP_ALL, CUSTOM_FIELD(L, error_log_tags, error_log_tag_apply), ARGS(2, 2),
     .repeat = REPEAT_APPEND, .syntax = "name value",
     .doc =
         "Adds `name: \"value\"` to the error log lines of requests, a member of their object in JSON. The value may have variables."},
    {"retry_cached_connection", IN_HTTP_ALL, FLAG(L, retry_cached_connection), .initial = "on",
     .doc =
         "Asks the same server once more, on a new connection, when a kept connection ends before a byte of the response came. off: only "
         "`*_next_upstream` decides. From Tengine."},
    {"log_subrequest", IN_HTTP_ALL, FLAG(L, log_subrequest), .initial = "off",
     .doc = "Logs subrequests in the access log."},
    {"request_time_cache", IN_HTTP_ALL, FLAG(L, request_time_cache), .initial = "on",
     .doc = "off reads the clock for $request_time and related variables, instead of the time when "
            "the iteration of the event loop began."},
    {0},
};
#undef L

/* Files. */
#define F struct file_settings
static const struct directive file_rows[] = {
    {"root", IN_ALL_AND_IF, CUSTOM_FIELD(F, root, root_apply), ARGS(1, 1), .initial = "html",
     .repeat = REPEAT_CUSTOM, .syntax = "path", .doc = "Directory to whose path the URI is added."},
    {"alias", IN_LOCATION, CUSTOM(alias_apply), ARGS(1, 1), .repeat = REPEAT_CUSTOM,
     .syntax = "path", .doc = "Path that replaces the location's prefix."},
    {"types", IN_HTTP_ALL, FREE_FORM(types_apply), ARGS(0, 0), .repeat = REPEAT_APPEND,
     .doc = "Media types by file name extension."},
    {"types_hash_bucket_size", IN_HTTP_ALL, NUMBER(F, types_hash_bucket_size),
     .apply = conf_hash_size_check, .initial = "64",
     .doc = "Accepted and ignored: the table of types sizes itself."},
    {"types_hash_max_size", IN_HTTP_ALL, NUMBER(F, types_hash_max_size),
     .apply = conf_hash_size_check, .initial = "1024",
     .doc = "Accepted and ignored: the table of types sizes itself."},
    {"default_type", IN_HTTP_ALL, STRING(F, default_type), .initial = "text/plain",
     .doc = "Media type for unknown file name extensions."},
    {"sendfile", IN_ALL_AND_IF, FLAG(F, sendfile), .initial = "off",
     .doc = "Sends files by sendfile(), and not through memory."},
    {"sendfile_max_chunk", IN_HTTP_ALL, SIZE(F, sendfile_max_chunk), .initial = "2m",
     .doc = "Most bytes of a file in one system call; 0 is no limit."},
    {"read_ahead", IN_HTTP_ALL, SIZE(F, read_ahead), .initial = "0",
     .doc = "Advises the kernel to read files ahead when a file is larger."},
    {"aio", IN_HTTP_ALL, CUSTOM_FIELD(F, aio, aio_apply), ARGS(1, 1), .initial = "off",
     .syntax = "on | off | threads[=pool]",
     .doc = "Reads files that are not in memory yet on threads."},
    {"aio_write", IN_HTTP_ALL, FLAG(F, aio_write), .initial = "off",
     .doc =
         "With `aio threads`: temporary files of answers of backends are written on threads, too."},
    {"directio", IN_HTTP_ALL, CUSTOM_FIELD(F, directio, directio_apply), ARGS(1, 1),
     .initial = "off", .syntax = "size | off",
     .doc = "Reads files of this size and above past the page cache."},
    {"directio_alignment", IN_HTTP_ALL, OFFSET(F, directio_alignment), .initial = "512",
     .doc = "Alignment of directio reads."},
    {"disable_symlinks", IN_HTTP_ALL, CUSTOM_FIELD(F, disable_symlinks, disable_symlinks_apply),
     ARGS(1, 2), .initial = "off", .syntax = "off | on | if_not_owner [from=part]",
     .doc = "Refuses paths that lead over symbolic links."},
    {"open_file_cache", IN_HTTP_ALL, CUSTOM_FIELD(F, open_file_cache, open_file_cache_apply),
     ARGS(1, 2), .initial = "off", .syntax = "off | max=N [inactive=time]",
     .doc = "Keeps descriptors and status of files."},
    {"open_file_cache_valid", IN_HTTP_ALL, SEC(F, open_file_cache_valid_s), .initial = "60s",
     .doc = "Time after which a kept file is checked again."},
    {"open_file_cache_retest", IN_HTTP_ALL, SEC(F, open_file_cache_valid_s),
     .replaced_by = "open_file_cache_valid", .doc = "Old name of open_file_cache_valid."},
    {"open_file_cache_min_uses", IN_HTTP_ALL, NUMBER(F, open_file_cache_min_uses), .initial = "1",
     .doc = "Uses within `inactive` after which a descriptor is kept open."},
    {"open_file_cache_errors", IN_HTTP_ALL, FLAG(F, open_file_cache_errors), .initial = "off",
     .doc = "Keeps failures, too."},
    {"open_file_cache_events", IN_HTTP_ALL, FLAG(F, open_file_cache_events), .initial = "off",
     .doc = "Accepted and ignored: works with kqueue only, as in nginx."},
    {"log_not_found", IN_HTTP_ALL, FLAG(F, log_not_found), .initial = "on",
     .doc = "Logs files that are not found."},
    {0},
};
#undef F

/* Request bodies. */
#define B struct body_settings
static const struct directive body_rows[] = {
    {"client_max_body_size", IN_HTTP_ALL, OFFSET(B, client_max_body_size), .initial = "1m",
     .doc = "Largest request body; 0 is no limit."},
    {"client_body_buffer_size", IN_HTTP_ALL, SIZE(B, client_body_buffer_size), .initial = "16k",
     .doc = "Part of a request body that is held in memory; more goes to a temporary file."},
    {"client_body_timeout", IN_HTTP_ALL, MSEC(B, client_body_timeout_ms), .initial = "60s",
     .doc = "Time between two reads of a request body."},
    {"client_body_total_timeout", IN_HTTP_ALL, MSEC(B, client_body_total_timeout_ms),
     .initial = "0",
     .doc =
         "Time for which the server waits for all of a request body at most; 0 is no limit. A client that needs longer gets 408. Time in "
         "which nothing is read, because a backend is slow, does not count."},
    {"client_body_min_rate", IN_HTTP_ALL, CUSTOM_FIELD(B, client_body_min_rate, min_rate_apply),
     ARGS(1, 2), .initial = "0", .syntax = "bytes [window=time]",
     .doc =
         "Bytes a second at which a request body has to arrive at least, over each `window` (10s) of the time that the client is waited "
         "for; a slower client gets 408. 0 is no limit. Streams of one connection share the rate."},
    {"client_body_in_file_only", IN_HTTP_ALL, ENUM(B, client_body_in_file_only, body_in_file_words),
     .initial = "off",
     .doc = "Writes each request body to a file, and keeps it (on) or removes it (clean)."},
    {"client_body_in_single_buffer", IN_HTTP_ALL, FLAG(B, client_body_in_single_buffer),
     .initial = "off", .doc = "Accepted and ignored: a body in memory always is in one piece."},
    {"client_body_buffers", IN_HTTP_ALL, OBSOLETE, ARGS(2, 2), .syntax = "number size",
     .doc = "From Tengine, ignored since Tengine 2.3: see client_body_buffer_size."},
    {"client_body_postpone_size", IN_HTTP_ALL, OBSOLETE, ARGS(1, 1), .syntax = "size",
     .doc = "From Tengine, ignored since Tengine 2.3: bodies are passed on as they arrive."},
    {"client_body_temp_path", IN_HTTP_ALL,
     CUSTOM_FIELD(B, client_body_temp_path, client_body_temp_path_apply), ARGS(1, 4),
     .syntax = "path [level1 [level2 [level3]]]",
     .doc = "Directory of temporary files with request bodies."},
    {0},
};
#undef B

/* Connections. */
#define C struct connection_settings
static const struct directive connection_rows[] = {
    {"tcp_nopush", IN_HTTP_ALL, FLAG(C, tcp_nopush), .initial = "off",
     .doc = "Accepted and ignored: heads and beginnings of files always leave in one packet."},
    {"tcp_nodelay", IN_HTTP_ALL, FLAG(C, tcp_nodelay), .initial = "on",
     .doc = "Sends small packets without delay."},
    {"send_timeout", IN_HTTP_ALL, MSEC(C, send_timeout_ms), .initial = "60s",
     .doc = "Time between two writes to a client that does not read."},
    {"send_min_rate", IN_HTTP_ALL, CUSTOM_FIELD(C, send_min_rate, min_rate_apply), ARGS(1, 2),
     .initial = "0", .syntax = "bytes [window=time]",
     .doc =
         "Bytes a second at which a client has to take a response at least, over each `window` (10s) of the time that it is waited for; "
         "the response to a slower client is broken off. 0 is no limit. Streams of one connection share the rate."},
    {"send_lowat", IN_HTTP_ALL, SIZE(C, send_lowat), .initial = "0",
     .doc = "Accepted and ignored: Linux has no use for it, as in nginx."},
    {"keepalive_timeout", IN_HTTP_ALL,
     CUSTOM_FIELD(C, keepalive_timeout_ms, keepalive_timeout_apply), ARGS(1, 2), .initial = "75s",
     .syntax = "timeout [header_timeout]",
     .doc = "Time that an idle connection is kept; 0 keeps none."},
    {"keepalive_min_timeout", IN_HTTP_ALL, MSEC(C, keepalive_min_timeout_ms), .initial = "0",
     .doc = "Age below which an idle connection is not closed by a shutdown."},
    {"keepalive_time", IN_HTTP_ALL, MSEC(C, keepalive_time_ms), .initial = "1h",
     .doc = "Age after which a connection is closed after its next response."},
    {"keepalive_requests", IN_HTTP_ALL, NUMBER(C, keepalive_requests), .initial = "1000",
     .doc = "Requests after which a connection is closed."},
    {"keepalive_disable", IN_HTTP_ALL, BITS(C, keepalive_disable, keepalive_disable_words),
     .initial = "msie6", .repeat = REPEAT_APPEND,
     .doc = "Browsers whose connections are not kept."},
    {"lingering_close", IN_HTTP_ALL, ENUM(C, lingering_close, lingering_words), .initial = "on",
     .doc = "Reads what a client still sends before its connection is closed."},
    {"lingering_time", IN_HTTP_ALL, MSEC(C, lingering_time_ms), .initial = "30s",
     .doc = "Most time of a lingering close."},
    {"lingering_timeout", IN_HTTP_ALL, MSEC(C, lingering_timeout_ms), .initial = "5s",
     .doc = "Silence that ends a lingering close."},
    {"reset_timedout_connection", IN_HTTP_ALL, FLAG(C, reset_timedout_connection), .initial = "off",
     .doc = "Resets connections that timed out."},
    {"limit_rate", IN_ALL_AND_IF, TEMPLATE_SIZE(C, limit_rate), .initial = "0",
     .doc = "Bytes per second sent to a client, for one request."},
    {"limit_rate_after", IN_ALL_AND_IF, TEMPLATE_SIZE(C, limit_rate_after), .initial = "0",
     .doc = "Bytes sent before limit_rate holds."},
    {0},
};
#undef C

/* Responses. */
#define R struct response_settings
static const struct directive response_rows[] = {
    {"absolute_redirect", IN_HTTP_ALL, FLAG(R, absolute_redirect), .initial = "on",
     .doc = "Makes redirects of the server absolute."},
    {"server_name_in_redirect", IN_HTTP_ALL, FLAG(R, server_name_in_redirect), .initial = "off",
     .doc = "Shows the first server_name in redirects, and not the Host of the request."},
    {"optimize_server_names", IN_HTTP | IN_SERVER, FLAG(R, server_name_in_redirect),
     .replaced_by = "server_name_in_redirect", .doc = "Old name of server_name_in_redirect."},
    {"port_in_redirect", IN_HTTP_ALL, FLAG(R, port_in_redirect), .initial = "on",
     .doc = "Shows the port in redirects."},
    {"msie_padding", IN_HTTP_ALL, FLAG(R, msie_padding), .initial = "on",
     .doc = "Lengthens built-in error pages to 512 bytes for browsers that hide shorter ones."},
    {"msie_refresh", IN_HTTP_ALL, FLAG(R, msie_refresh), .initial = "off",
     .doc = "Sends MSIE a page that refreshes, and not a redirect."},
    {"etag", IN_HTTP_ALL, FLAG(R, etag), .initial = "on",
     .doc = "Adds ETag to responses made of files."},
    {"chunked_transfer_encoding", IN_HTTP_ALL, FLAG(R, chunked_transfer_encoding), .initial = "on",
     .doc = "Lets responses of unknown length be chunked."},
    {"if_modified_since", IN_HTTP_ALL, ENUM(R, if_modified_since, if_modified_since_words),
     .initial = "exact", .doc = "How If-Modified-Since is compared."},
    {"server_tokens", IN_HTTP_ALL, ENUM(R, server_tokens, server_tokens_words), .initial = "on",
     .doc = "Shows the version in the Server field and on error pages."},
    {"server_tag", IN_HTTP_ALL, CUSTOM_FIELD(R, server_tag, server_tag_apply), ARGS(1, 1),
     .syntax = "off | text",
     .doc =
         "Shown as the name of the server in the Server field and on error pages; off shows none."},
    {"server_info", IN_HTTP_ALL, FLAG(R, server_info), .initial = "off", .apply = server_info_check,
     .doc =
         "Adds URL, server, date and server_admin to built-in error pages; on with a server_admin."},
    {"server_admin", IN_HTTP | IN_SERVER, STRING(R, server_admin),
     .doc = "Contact for failures: shown on built-in error pages unless server_info is off."},
    {"max_ranges", IN_HTTP_ALL, NUMBER(R, max_ranges), .initial = "2147483647",
     .doc = "Most byte ranges of a request; more are answered with the whole; 0 serves no ranges."},
    {"postpone_output", IN_HTTP_ALL, SIZE(R, postpone_output), .initial = "1460",
     .doc = "Accepted and ignored: output is collected in each iteration of the event loop."},
    {"subrequest_output_buffer_size", IN_HTTP_ALL, SIZE(R, subrequest_output_buffer_size),
     .initial = "4k", .doc = "Most bytes of a subrequest's response that is held in memory."},
    {"error_page", IN_ALL_AND_IF, CUSTOM_FIELD(R, error_pages, error_page_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND, .syntax = "code ... [=[response]] uri | default",
     .doc = "What is answered for these codes."},
    {"recursive_error_pages", IN_HTTP_ALL, FLAG(R, recursive_error_pages), .initial = "off",
     .doc = "Lets an error page lead to another one."},
    {"early_hints", IN_HTTP_ALL, TEMPLATES(R, early_hints), .repeat = REPEAT_APPEND,
     .doc =
         "Passes 103 (Early Hints) responses of upstreams on when any value is not empty and not 0."},
    {"post_action", IN_ALL_AND_IF, TEMPLATE(R, post_action),
     .doc = "URI or named location that is run after the response was given."},
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
