/* Get and set functions for core_variables, by file. Only for variables*.c. */
#ifndef HTTP_VARIABLES_VARIABLES_GET_H
#define HTTP_VARIABLES_VARIABLES_GET_H

#include "http/variables/variables.h"

#define VARIABLE_GET(name)                                                                         \
    bool name(struct variable_env *env, const struct variable *variable, struct str *out)
#define VARIABLE_SET(name)                                                                         \
    void name(struct variable_env *env, const struct variable *variable, struct str value)

/* variables_request.c: the request. */
VARIABLE_GET(get_request_part); /* data: offset of a struct str in struct request */
VARIABLE_GET(get_header);       /* data: enum field_id */
VARIABLE_GET(get_header_by_name);
VARIABLE_GET(get_content_length);
VARIABLE_GET(get_cookie);
VARIABLE_GET(get_argument);
VARIABLE_GET(get_request_method);
VARIABLE_GET(get_is_args);
VARIABLE_SET(set_args);
VARIABLE_GET(get_host);
VARIABLE_GET(get_request_uri);
VARIABLE_GET(get_raw_uri);
VARIABLE_GET(get_full_request); /* data: 1 = with the normalized path */
VARIABLE_GET(get_server_protocol);
VARIABLE_GET(get_remote_user);
VARIABLE_GET(get_request_length);
VARIABLE_GET(get_request_memory);
VARIABLE_GET(get_request_id);
VARIABLE_GET(get_request_time);
VARIABLE_GET(get_request_time_whole); /* data: number of units per millisecond */
VARIABLE_GET(get_request_start_time);
/* Stages of a request. data of the next two: when the stage began, how long it lasted. */
enum request_stage { STAGE_RECEIVE, STAGE_RECEIVED, STAGE_SEND, STAGE_SENT };
VARIABLE_GET(get_moment);
VARIABLE_GET(get_stage_time);
VARIABLE_GET(get_request_body);
VARIABLE_GET(get_request_body_file);
VARIABLE_GET(get_request_port);
VARIABLE_GET(get_is_request_port);

/* variables_response.c: the location and the response. */
VARIABLE_GET(get_server_name);
VARIABLE_GET(get_document_root);
VARIABLE_GET(get_realpath_root);
VARIABLE_GET(get_request_filename);
VARIABLE_GET(get_limit_rate);
VARIABLE_SET(set_limit_rate);
VARIABLE_GET(get_status);
VARIABLE_GET(get_bytes_sent);
VARIABLE_GET(get_body_bytes_sent);
VARIABLE_GET(get_request_completion);
VARIABLE_GET(get_sent_header);
VARIABLE_GET(get_sent_trailer);
VARIABLE_GET(get_sent_cookie);

/* variables_connection.c: the connection and its two addresses. */
VARIABLE_GET(get_binary_remote_addr);
VARIABLE_GET(get_remote_addr);
VARIABLE_GET(get_remote_port);
VARIABLE_GET(get_server_addr);
VARIABLE_GET(get_server_port);
VARIABLE_GET(get_connection);
VARIABLE_GET(get_connection_requests);
VARIABLE_GET(get_connection_time);
VARIABLE_GET(get_pipe);
VARIABLE_GET(get_scheme);
VARIABLE_GET(get_https);
VARIABLE_GET(get_proxy_address); /* data: 1 = of the server */
VARIABLE_GET(get_proxy_port);    /* data: 1 = of the server */
VARIABLE_GET(get_proxy_tlv);
VARIABLE_GET(get_tcp_info); /* data: enum tcp_info_part */

enum tcp_info_part { TCP_RTT, TCP_RTT_VARIANCE, TCP_SEND_WINDOW, TCP_RECEIVE_SPACE };

/* variables_general.c: clocks, the host, and values computed from others. */
VARIABLE_GET(get_time_http);
VARIABLE_GET(get_unix_time);
VARIABLE_GET(get_date_part); /* data: enum date_part */
VARIABLE_GET(get_hostname);
VARIABLE_GET(get_dollar);
VARIABLE_GET(get_host_comment);
VARIABLE_GET(get_escaped_uri);
VARIABLE_GET(get_md5);
VARIABLE_GET(get_base64_decoded);
VARIABLE_GET(get_ascii);

enum date_part { YEAR, YEAR_2, MONTH, DAY, HOUR, HOUR_12, MINUTE, SECOND };

#endif
