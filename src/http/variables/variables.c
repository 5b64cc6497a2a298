/* All variables of ngx_http_core_module, a row each. The getters are in the other variables_*.c. */
#include "http/variables/variables.h"

#include <stddef.h>

#include "http/variables/variables_get.h"

#define NAMED(text) .name = STR_INIT(text)
#define PART(member) .get = get_request_part, .data = offsetof(struct request, member)
/* Scripts and modules may change fields, so their values are not cached. */
#define HEADER(id) .get = get_header, .data = id, .flags = VARIABLE_VOLATILE
#define ANY .kind = &any_subject
#define VOLATILE .flags = VARIABLE_VOLATILE
#define FAMILY .flags = VARIABLE_PREFIX
#define VOLATILE_FAMILY .flags = VARIABLE_PREFIX | VARIABLE_VOLATILE
#define ASSIGNABLE .flags = VARIABLE_VOLATILE | VARIABLE_CHANGEABLE

const struct variable core_variables[] = {
    /* The request. */
    {NAMED("request"), .doc = "Request line as received.", PART(head.line)},
    {NAMED("request_method"), .doc = "Method of the request.", .get = get_request_method, VOLATILE},
    {NAMED("request_uri"), .doc = "Request URI with arguments, as received.",
     .get = get_request_uri},
    {NAMED("uri"),
     .doc = "Current URI, decoded and normalized; changed by rewrites and internal "
            "redirects.",
     PART(uri), VOLATILE},
    {NAMED("document_uri"), .doc = "Same as `$uri`.", PART(uri), VOLATILE},
    {NAMED("args"), .doc = "Query string; can be set.", PART(args), .set = set_args, ASSIGNABLE},
    {NAMED("query_string"), .doc = "Same as `$args`.", PART(args), VOLATILE},
    {NAMED("is_args"), .doc = "`?` if the request has a query string, otherwise empty.",
     .get = get_is_args, VOLATILE},
    {NAMED("arg_"), .doc = "Argument with this name in the query string, as received.",
     .get = get_argument, VOLATILE_FAMILY},
    {NAMED("cookie_"), .doc = "Cookie with this name.", .get = get_cookie, VOLATILE_FAMILY},
    {NAMED("host"),
     .doc = "Host of the request line, otherwise of the field Host, otherwise the first "
            "name of the server; in lower case, without port.",
     .get = get_host, VOLATILE}, /* scripts change the field */
    {NAMED("request_port"), .doc = "Port in the request line or in the field Host.",
     .get = get_request_port},
    {NAMED("is_request_port"), .doc = "`:` if `$request_port` is not empty, otherwise empty.",
     .get = get_is_request_port},
    {NAMED("server_protocol"), .doc = "Protocol of the request, for example HTTP/1.1 or HTTP/2.0.",
     .get = get_server_protocol},
    {NAMED("remote_user"), .doc = "User name in Basic authentication.", .get = get_remote_user},
    {NAMED("content_length"), .doc = "Field Content-Length of the request.",
     .get = get_content_length, VOLATILE},
    {NAMED("content_type"), .doc = "Field Content-Type of the request.",
     HEADER(FIELD_CONTENT_TYPE)},
    {NAMED("http_host"), .doc = "Field Host of the request.", HEADER(FIELD_HOST)},
    {NAMED("http_user_agent"), .doc = "Field User-Agent of the request.", HEADER(FIELD_USER_AGENT)},
    {NAMED("http_referer"), .doc = "Field Referer of the request.", HEADER(FIELD_REFERER)},
    {NAMED("http_via"), .doc = "All fields Via of the request, joined with \", \".",
     HEADER(FIELD_VIA)},
    {NAMED("http_x_forwarded_for"),
     .doc = "All fields X-Forwarded-For of the request, joined with \", \".",
     HEADER(FIELD_X_FORWARDED_FOR)},
    {NAMED("http_cookie"), .doc = "All fields Cookie of the request, joined with \"; \".",
     HEADER(FIELD_COOKIE)},
    {NAMED("http_"),
     .doc = "Request header field with this name, in lower case and with underscores "
            "instead of hyphens.",
     .get = get_header_by_name, VOLATILE_FAMILY},
    {NAMED("request_length"),
     .doc = "Length of the request, including request line, header and body.",
     .get = get_request_length, VOLATILE},
    {NAMED("request_memory"), .doc = "Memory used by the request, in bytes.",
     .get = get_request_memory, VOLATILE},
    {NAMED("request_id"), .doc = "Unique ID of the request, 32 hexadecimal digits.",
     .get = get_request_id},
    {NAMED("request_time"),
     .doc = "Time since the first byte of the request was received, in seconds with "
            "milliseconds.",
     .get = get_request_time, VOLATILE},
    {NAMED("request_body"), .doc = "Request body, if it is in memory.", .get = get_request_body,
     VOLATILE},
    {NAMED("request_body_file"), .doc = "Name of the temporary file with the request body.",
     .get = get_request_body_file, VOLATILE},

    /* The location and the response. */
    {NAMED("server_name"), .doc = "First name of the server that processes the request.",
     .get = get_server_name},
    {NAMED("document_root"), .doc = "Value of `root` or `alias` for the current request.",
     .get = get_document_root, VOLATILE},
    {NAMED("realpath_root"), .doc = "Value of `$document_root` with all symbolic links resolved.",
     .get = get_realpath_root, VOLATILE},
    {NAMED("request_filename"),
     .doc = "Path of the file for the request, from `root` or `alias` and the URI.",
     .get = get_request_filename, VOLATILE},
    {NAMED("limit_rate"), .doc = "Maximum rate of the response in bytes per second; can be set.",
     .get = get_limit_rate, .set = set_limit_rate, ASSIGNABLE},
    {NAMED("status"), .doc = "Status code of the response.", .get = get_status, VOLATILE},
    {NAMED("bytes_sent"), .doc = "Number of bytes sent to the client, including the header.",
     .get = get_bytes_sent},
    {NAMED("body_bytes_sent"), .doc = "Number of bytes of the response body sent to the client.",
     .get = get_body_bytes_sent},
    {NAMED("request_completion"), .doc = "`OK` if the request was completed, otherwise empty.",
     .get = get_request_completion},
    {NAMED("sent_http_"),
     .doc = "Response header field with this name, in lower case and with underscores "
            "instead of hyphens.",
     .get = get_sent_header, FAMILY},
    {NAMED("sent_trailer_"), .doc = "Response trailer field with this name.",
     .get = get_sent_trailer, FAMILY},

    /* The connection. */
    {NAMED("binary_remote_addr"), .doc = "Client address in binary form, 4 or 16 bytes.",
     .get = get_binary_remote_addr},
    {NAMED("remote_addr"), .doc = "Client address.", .get = get_remote_addr},
    {NAMED("remote_port"), .doc = "Client port.", .get = get_remote_port},
    {NAMED("server_addr"), .doc = "Local address of the connection.", .get = get_server_addr},
    {NAMED("server_port"), .doc = "Local port of the connection.", .get = get_server_port},
    {NAMED("connection"), .doc = "Serial number of the connection.", .get = get_connection},
    {NAMED("connection_requests"),
     .doc = "Number of requests in the connection so far, including the current one.",
     .get = get_connection_requests},
    {NAMED("connection_time"),
     .doc = "Time since the connection was accepted, in seconds with milliseconds.",
     .get = get_connection_time, VOLATILE},
    {NAMED("pipe"), .doc = "`p` if the request was pipelined, otherwise `.`.", .get = get_pipe},
    {NAMED("scheme"), .doc = "Scheme of the request, `http` or `https`.", .get = get_scheme},
    {NAMED("https"), .doc = "`on` if the connection uses TLS, otherwise empty.", .get = get_https},
    {NAMED("proxy_protocol_addr"), .doc = "Client address from the PROXY protocol header.",
     .get = get_proxy_address},
    {NAMED("proxy_protocol_port"), .doc = "Client port from the PROXY protocol header.",
     .get = get_proxy_port},
    {NAMED("proxy_protocol_server_addr"), .doc = "Server address from the PROXY protocol header.",
     .get = get_proxy_address, .data = 1},
    {NAMED("proxy_protocol_server_port"), .doc = "Server port from the PROXY protocol header.",
     .get = get_proxy_port, .data = 1},
    {NAMED("proxy_protocol_tlv_"),
     .doc = "TLV from the PROXY protocol header with this name (alpn, authority, "
            "unique_id, ssl, netns, or ssl_ and version, cn, cipher, sig_alg, key_alg, "
            "verify), or with this type as 0x and a hexadecimal number.",
     .get = get_proxy_tlv, FAMILY},
    {NAMED("tcpinfo_rtt"),
     .doc = "Round-trip time of the connection as measured by the kernel, in microseconds.",
     .get = get_tcp_info, .data = TCP_RTT, VOLATILE},
    {NAMED("tcpinfo_rttvar"), .doc = "Variation of the round-trip time, in microseconds.",
     .get = get_tcp_info, .data = TCP_RTT_VARIANCE, VOLATILE},
    {NAMED("tcpinfo_snd_cwnd"), .doc = "Congestion window of the connection, in segments.",
     .get = get_tcp_info, .data = TCP_SEND_WINDOW, VOLATILE},
    {NAMED("tcpinfo_rcv_space"),
     .doc = "Receive buffer space of the connection as estimated by the kernel, in bytes.",
     .get = get_tcp_info, .data = TCP_RECEIVE_SPACE, VOLATILE},

    /* Clocks and the host. */
    {NAMED("msec"), .doc = "Current time in seconds, with milliseconds.", .get = variable_get_msec,
     ANY, VOLATILE},
    {NAMED("time_local"), .doc = "Local time in the format of access logs.",
     .get = variable_get_time_local, ANY, VOLATILE},
    {NAMED("time_iso8601"), .doc = "Local time in ISO 8601 format.",
     .get = variable_get_time_iso8601, ANY, VOLATILE},
    {NAMED("time_iso8601_ms"), .doc = "Local time in ISO 8601 format, with milliseconds.",
     .get = variable_get_time_iso8601_ms, ANY, VOLATILE},
    {NAMED("pid"), .doc = "Process ID of the worker.", .get = variable_get_pid, ANY},
    {NAMED("hostname"), .doc = "Host name of the machine.", .get = get_hostname, ANY},
    {NAMED("nginx_version"), .doc = "nginx version with which the server is compatible.",
     .get = variable_get_nginx_version, ANY},

    /* Families of variables (Tengine's). */
    {NAMED("sent_cookie_"), .doc = "Cookie with this name that the response sets.",
     .get = get_sent_cookie, FAMILY},
    {NAMED("escape_uri_"), .doc = "Value of the named variable, escaped for URIs.",
     .get = get_escaped_uri, ANY, FAMILY},
    {NAMED("md5_encode_"), .doc = "MD5 of the named variable's value, in hexadecimal.",
     .get = get_md5, ANY, FAMILY},
    {NAMED("base64_decode_"), .doc = "Value of the named variable, decoded from base64.",
     .get = get_base64_decoded, ANY, FAMILY},
    {NAMED("ascii_"), .doc = "Character with this code, in decimal or in hexadecimal with 0x.",
     .get = get_ascii, ANY, FAMILY},
    {.name = {NULL, 0}},
};

/* Tengine's variables with common names, which a configuration for nginx may use itself, in `set`
 * or as a named capture. They exist only if the configuration does not define them. */
const struct variable optional_variables[] = {
    {NAMED("raw_uri"), .doc = "Path of the request as received, without arguments.",
     .get = get_raw_uri},
    {NAMED("full_request"), .doc = "Scheme, host, port and URI as received.",
     .get = get_full_request},
    {NAMED("normalized_request"), .doc = "Same as `$full_request` with a normalized path.",
     .get = get_full_request, .data = 1},
    {NAMED("request_start_time"), .doc = "Local time at which the request began.",
     .get = get_request_start_time},
    {NAMED("request_recv_start_time"), .doc = "Time at which reading the request began.",
     .get = get_moment, .data = STAGE_RECEIVE, VOLATILE},
    {NAMED("request_recv_finish_time"), .doc = "Time at which reading the request ended.",
     .get = get_moment, .data = STAGE_RECEIVED, VOLATILE},
    {NAMED("request_recv_time"), .doc = "Duration of reading the request.", .get = get_stage_time,
     .data = STAGE_RECEIVE, VOLATILE},
    {NAMED("response_send_start_time"), .doc = "Time at which sending the response began.",
     .get = get_moment, .data = STAGE_SEND, VOLATILE},
    {NAMED("response_send_finish_time"), .doc = "Time at which sending the response ended.",
     .get = get_moment, .data = STAGE_SENT, VOLATILE},
    {NAMED("response_send_time"), .doc = "Duration of sending the response.", .get = get_stage_time,
     .data = STAGE_SEND, VOLATILE},
    {NAMED("server_rt"),
     .doc = "Time between the last byte of the request and the first byte of the response.",
     .get = get_stage_time, .data = STAGE_RECEIVED, VOLATILE},
    {NAMED("time_http"), .doc = "Current time in the format of the field Date.",
     .get = get_time_http, ANY, VOLATILE},
    {NAMED("unix_time"), .doc = "Seconds since 1970.", .get = get_unix_time, ANY, VOLATILE},
    {NAMED("year"), .doc = "Year, four digits.", .get = get_date_part, ANY, .data = YEAR, VOLATILE},
    {NAMED("year2"), .doc = "Year, two digits.", .get = get_date_part, ANY, .data = YEAR_2,
     VOLATILE},
    {NAMED("month"), .doc = "Month, two digits.", .get = get_date_part, ANY, .data = MONTH,
     VOLATILE},
    {NAMED("day"), .doc = "Day of the month, two digits.", .get = get_date_part, ANY, .data = DAY,
     VOLATILE},
    {NAMED("hour"), .doc = "Hour, 00 to 23.", .get = get_date_part, ANY, .data = HOUR, VOLATILE},
    {NAMED("hour12"), .doc = "Hour, 01 to 12.", .get = get_date_part, ANY, .data = HOUR_12,
     VOLATILE},
    {NAMED("minute"), .doc = "Minute, two digits.", .get = get_date_part, ANY, .data = MINUTE,
     VOLATILE},
    {NAMED("second"), .doc = "Second, two digits.", .get = get_date_part, ANY, .data = SECOND,
     VOLATILE},
    {NAMED("dollar"), .doc = "A dollar sign.", .get = get_dollar, ANY},
    {NAMED("host_comment"), .doc = "HTML comment with the date and the host name of the machine.",
     .get = get_host_comment, ANY},
    {NAMED("request_time_msec"), .doc = "`$request_time` in milliseconds.",
     .get = get_request_time_whole, .data = 1, VOLATILE},
    {NAMED("request_time_usec"), .doc = "`$request_time` in microseconds.",
     .get = get_request_time_whole, .data = 1000, VOLATILE},
    {.name = {NULL, 0}},
};
#define OPTIONAL_COUNT (sizeof(optional_variables) / sizeof(optional_variables[0]))

bool variables_add_optional(struct conf *conf, struct http_main *main)
{
    struct variable free_names[OPTIONAL_COUNT] = {0};
    unsigned count = 0;

    for (const struct variable *row = optional_variables; row->name.len != 0; row++) {
        const struct variable *known = map_get_nocase(&main->variables.by_name, row->name);
        if (known == NULL || (known->flags & VARIABLE_WEAK) != 0) {
            free_names[count++] = *row;
        }
    }
    variable_add_all(conf, &main->variables, free_names);
    return true;
}
