/* Every variable of ngx_http_core_module, a row each. The getters are in the other variables_*.c.
 */
#include "http/variables/variables.h"

#include <stddef.h>

#include "http/variables/variables_get.h"

#define NAMED(text) .name = STR_INIT(text)
#define PART(member) .get = get_request_part, .data = offsetof(struct request, member)
#define HEADER(id) .get = get_header, .data = id
#define ANY .kind = &any_subject
#define VOLATILE .flags = VARIABLE_VOLATILE
#define FAMILY .flags = VARIABLE_PREFIX
#define VOLATILE_FAMILY .flags = VARIABLE_PREFIX | VARIABLE_VOLATILE
#define ASSIGNABLE .flags = VARIABLE_VOLATILE | VARIABLE_CHANGEABLE

const struct variable core_variables[] = {
    /* The request. */
    {NAMED("request"), PART(line)},
    {NAMED("request_method"), .get = get_request_method, VOLATILE},
    {NAMED("request_uri"), .get = get_request_uri},
    {NAMED("uri"), PART(uri), VOLATILE},
    {NAMED("document_uri"), PART(uri), VOLATILE},
    {NAMED("args"), PART(args), .set = set_args, ASSIGNABLE},
    {NAMED("query_string"), PART(args), VOLATILE},
    {NAMED("is_args"), .get = get_is_args, VOLATILE},
    {NAMED("arg_"), .get = get_argument, VOLATILE_FAMILY},
    {NAMED("cookie_"), .get = get_cookie, FAMILY},
    {NAMED("host"), .get = get_host, VOLATILE}, /* scripts change the field */
    {NAMED("request_port"), .get = get_request_port},
    {NAMED("is_request_port"), .get = get_is_request_port},
    {NAMED("server_protocol"), .get = get_server_protocol},
    {NAMED("remote_user"), .get = get_remote_user},
    {NAMED("content_length"), .get = get_content_length, VOLATILE},
    {NAMED("content_type"), HEADER(FIELD_CONTENT_TYPE)},
    {NAMED("http_host"), HEADER(FIELD_HOST)},
    {NAMED("http_user_agent"), HEADER(FIELD_USER_AGENT)},
    {NAMED("http_referer"), HEADER(FIELD_REFERER)},
    {NAMED("http_via"), HEADER(FIELD_VIA)},
    {NAMED("http_x_forwarded_for"), HEADER(FIELD_X_FORWARDED_FOR)},
    {NAMED("http_cookie"), HEADER(FIELD_COOKIE)},
    {NAMED("http_"), .get = get_header_by_name, FAMILY},
    {NAMED("request_length"), .get = get_request_length, VOLATILE},
    {NAMED("request_memory"), .get = get_request_memory, VOLATILE},
    {NAMED("request_id"), .get = get_request_id},
    {NAMED("request_time"), .get = get_request_time, VOLATILE},
    {NAMED("request_body"), .get = get_request_body, VOLATILE},
    {NAMED("request_body_file"), .get = get_request_body_file, VOLATILE},

    /* The place that answers, and the answer. */
    {NAMED("server_name"), .get = get_server_name},
    {NAMED("document_root"), .get = get_document_root, VOLATILE},
    {NAMED("realpath_root"), .get = get_realpath_root, VOLATILE},
    {NAMED("request_filename"), .get = get_request_filename, VOLATILE},
    {NAMED("limit_rate"), .get = get_limit_rate, .set = set_limit_rate, ASSIGNABLE},
    {NAMED("status"), .get = get_status, VOLATILE},
    {NAMED("bytes_sent"), .get = get_bytes_sent},
    {NAMED("body_bytes_sent"), .get = get_body_bytes_sent},
    {NAMED("request_completion"), .get = get_request_completion},
    {NAMED("sent_http_"), .get = get_sent_header, FAMILY},
    {NAMED("sent_trailer_"), .get = get_sent_trailer, FAMILY},

    /* The connection. */
    {NAMED("binary_remote_addr"), .get = get_binary_remote_addr},
    {NAMED("remote_addr"), .get = get_remote_addr},
    {NAMED("remote_port"), .get = get_remote_port},
    {NAMED("server_addr"), .get = get_server_addr},
    {NAMED("server_port"), .get = get_server_port},
    {NAMED("connection"), .get = get_connection},
    {NAMED("connection_requests"), .get = get_connection_requests},
    {NAMED("connection_time"), .get = get_connection_time, VOLATILE},
    {NAMED("pipe"), .get = get_pipe},
    {NAMED("http3"), .get = get_http3},
    {NAMED("scheme"), .get = get_scheme},
    {NAMED("https"), .get = get_https},
    {NAMED("proxy_protocol_addr"), .get = get_proxy_address},
    {NAMED("proxy_protocol_port"), .get = get_proxy_port},
    {NAMED("proxy_protocol_server_addr"), .get = get_proxy_address, .data = 1},
    {NAMED("proxy_protocol_server_port"), .get = get_proxy_port, .data = 1},
    {NAMED("proxy_protocol_tlv_"), .get = get_proxy_tlv, FAMILY},
    {NAMED("tcpinfo_rtt"), .get = get_tcp_info, .data = TCP_RTT, VOLATILE},
    {NAMED("tcpinfo_rttvar"), .get = get_tcp_info, .data = TCP_RTT_VARIANCE, VOLATILE},
    {NAMED("tcpinfo_snd_cwnd"), .get = get_tcp_info, .data = TCP_SEND_WINDOW, VOLATILE},
    {NAMED("tcpinfo_rcv_space"), .get = get_tcp_info, .data = TCP_RECEIVE_SPACE, VOLATILE},

    /* Clocks and the machine. */
    {NAMED("msec"), .get = variable_get_msec, ANY, VOLATILE},
    {NAMED("time_local"), .get = variable_get_time_local, ANY, VOLATILE},
    {NAMED("time_iso8601"), .get = variable_get_time_iso8601, ANY, VOLATILE},
    {NAMED("time_iso8601_ms"), .get = variable_get_time_iso8601_ms, ANY, VOLATILE},
    {NAMED("pid"), .get = variable_get_pid, ANY},
    {NAMED("hostname"), .get = get_hostname, ANY},
    {NAMED("nginx_version"), .get = variable_get_nginx_version, ANY},

    /* Families of Tengine. */
    {NAMED("sent_cookie_"), .get = get_sent_cookie, FAMILY},
    {NAMED("escape_uri_"), .get = get_escaped_uri, ANY, FAMILY},
    {NAMED("md5_encode_"), .get = get_md5, ANY, FAMILY},
    {NAMED("base64_decode_"), .get = get_base64_decoded, ANY, FAMILY},
    {NAMED("ascii_"), .get = get_ascii, ANY, FAMILY},
    {.name = {NULL, 0}},
};

/*
 * Of Tengine: names so usual that a configuration for nginx may use them for itself, in `set` or as the
 * name of a group in an expression. They mean this only where nobody else defines them.
 */
static const struct variable optional_variables[] = {
    {NAMED("raw_uri"), .get = get_raw_uri},
    {NAMED("full_request"), .get = get_full_request},
    {NAMED("normalized_request"), .get = get_full_request, .data = 1},
    {NAMED("request_start_time"), .get = get_request_start_time},
    {NAMED("request_recv_start_time"), .get = get_moment, .data = STAGE_RECEIVE, VOLATILE},
    {NAMED("request_recv_finish_time"), .get = get_moment, .data = STAGE_RECEIVED, VOLATILE},
    {NAMED("request_recv_time"), .get = get_stage_time, .data = STAGE_RECEIVE, VOLATILE},
    {NAMED("response_send_start_time"), .get = get_moment, .data = STAGE_SEND, VOLATILE},
    {NAMED("response_send_finish_time"), .get = get_moment, .data = STAGE_SENT, VOLATILE},
    {NAMED("response_send_time"), .get = get_stage_time, .data = STAGE_SEND, VOLATILE},
    {NAMED("server_rt"), .get = get_stage_time, .data = STAGE_RECEIVED, VOLATILE},
    {NAMED("time_http"), .get = get_time_http, ANY, VOLATILE},
    {NAMED("unix_time"), .get = get_unix_time, ANY, VOLATILE},
    {NAMED("year"), .get = get_date_part, ANY, .data = YEAR, VOLATILE},
    {NAMED("year2"), .get = get_date_part, ANY, .data = YEAR_2, VOLATILE},
    {NAMED("month"), .get = get_date_part, ANY, .data = MONTH, VOLATILE},
    {NAMED("day"), .get = get_date_part, ANY, .data = DAY, VOLATILE},
    {NAMED("hour"), .get = get_date_part, ANY, .data = HOUR, VOLATILE},
    {NAMED("hour12"), .get = get_date_part, ANY, .data = HOUR_12, VOLATILE},
    {NAMED("minute"), .get = get_date_part, ANY, .data = MINUTE, VOLATILE},
    {NAMED("second"), .get = get_date_part, ANY, .data = SECOND, VOLATILE},
    {NAMED("dollar"), .get = get_dollar, ANY},
    {NAMED("host_comment"), .get = get_host_comment, ANY},
    {NAMED("request_time_msec"), .get = get_request_time_whole, .data = 1, VOLATILE},
    {NAMED("request_time_usec"), .get = get_request_time_whole, .data = 1000, VOLATILE},
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
