/* Where our rows differ from the facts, each with its reason. Read by test_directives.c alone. */
#ifndef TESTS_REFERENCE_DEVIATIONS_H
#define TESTS_REFERENCE_DEVIATIONS_H

#include <stddef.h>

/* What differs; MISSING: we have no such row, EXTRA: the facts know none in this module. */
enum aspect { CONTEXTS, KIND, ARGUMENTS, DEFAULT, MISSING, EXTRA };

struct deviation {
    const char *module; /* ours; here and in the name one "*" stands for any text */
    const char *name;
    enum aspect aspect;
    const char
        *ours; /* what our row says; NULL: that depends on configure; empty for MISSING and EXTRA */
    const char *reason;
};

#define CORE "ngx_core_module"
#define HTTP "ngx_http_core_module"
#define PROXY "ngx_http_proxy_module"
#define FASTCGI "ngx_http_fastcgi_module"
#define UPSTREAM "ngx_http_upstream_module"
#define CHECK "ngx_http_upstream_check_module"
#define STICKY "ngx_http_upstream_session_sticky_module"
#define SSL "ngx_http_ssl_module"
#define FAMILY "ngx_http_*_module" /* proxy, fastcgi, uwsgi, scgi, memcached, tunnel */

static const struct deviation deviations[] = {
    /* HTTP/3. */
    {"ngx_http_v3_module", "http3_alt_svc", EXTRA, "", "tells clients on TCP of HTTP/3"},
    {"ngx_http_v3_module", "quic_congestion_control", EXTRA, "", "CUBIC or BBR"},
    {PROXY, "proxy_http3_*", EXTRA, "", "HTTP/3 towards backends, as Angie spells it"},
    {PROXY, "proxy_quic_*", EXTRA, "", "the same"},
    {"ngx_http_grpc_module", "grpc_http_version", EXTRA, "", "ours: gRPC over HTTP/3"},
    {"ngx_http_grpc_module", "grpc_http3_*", EXTRA, "", "as proxy_http3_*"},
    {"ngx_http_grpc_module", "grpc_quic_*", EXTRA, "", "as proxy_quic_*"},
    {"*", "ssl_session_ticket_key", ARGUMENTS, "1-2", "ours: auto, and how often it changes"},
    {"*", "*_inherit", EXTRA, "",
     "ours: lists that a block merges with those of the block around it"},
    {CORE, "config_history", EXTRA, "", "ours: configurations that ran are kept"},
    {CORE, "reload_confirm", EXTRA, "", "ours: a reload that nobody confirms is taken back"},
    {CORE, "shutdown_delay", EXTRA, "", "ours: balancers notice before the end"},
    {"ngx_redis_store_module", "*", EXTRA, "", "ours: state that nodes share"},
    {HTTP, "client_body_total_timeout", EXTRA, "", "ours: slow clients"},
    {HTTP, "client_body_min_rate", EXTRA, "", "the same"},
    {HTTP, "send_min_rate", EXTRA, "", "the same"},
    {"ngx_http_auth_require_module", "auth_require", DEFAULT, "", "no condition, which `off` says"},
    {"ngx_http_ready_module", "ready", EXTRA, "", "ours: a readiness handler"},
    {"ngx_http_debug_request_module", "debug_request", EXTRA, "",
     "ours: the way of chosen requests"},
    {"ngx_http_acme_module", "state_path", DEFAULT, "", "follows from the issuer's name"},
    {"ngx_http_acme_module", "dns_*", EXTRA, "", "ours: dns-01"},
    {"ngx_http_oidc_module", "config_url", DEFAULT, "", "follows from `issuer`"},
    {"ngx_http_oidc_module", "ssl_trusted_certificate", DEFAULT, "", "the system's authorities"},
    /* Lua. */
    {"ngx_http_lua_module", "*_by_lua_block", KIND, "line",
     "what stands in the braces is a text: the last argument"},
    {"ngx_http_lua_module", "*_by_lua_block", ARGUMENTS, NULL,
     "what stands in the braces is counted as an argument"},
    {"ngx_http_lua_module", "lua_package_*path", DEFAULT, "",
     "the default is that of the library, or of LUA_PATH and LUA_CPATH"},
    {"ngx_http_lua_module", "lua_time_limit", EXTRA, "",
     "ours: tells of scripts that compute for long"},
    {"ngx_http_lua_module", "lua_memory_limit", EXTRA, "", "ours: a bound on the memory of a VM"},
    {"ngx_http_lua_module", "lua_capture_max_size", EXTRA, "", "ours: a bound on a captured body"},
    {"ngx_http_lua_module", "exit_worker_by_lua", EXTRA, "", "the form that its siblings have"},
    {"ngx_stream_lua_module", "*", EXTRA, "", "the catalogue has the rows of http alone"},
    {"ngx_http_session_log_module", "session_log_format", DEFAULT, "",
     "\"combined\" is there before the configuration is read"},
    /* Stream. */
    {"ngx_stream_core_module", "error_log", DEFAULT, "",
     "inherited from the main level, which has the default"},
    {"ngx_stream_core_module", "server_name", DEFAULT, "",
     "a server without names gets the empty one when its block was read"},
    {"ngx_stream_core_module", "max_self_hops", EXTRA, "",
     "ends what the server passes on to itself"},
    {"ngx_stream_core_module", "udp_flow_key", EXTRA, "",
     "ours: sessions that clients keep when their address changes"},
    {"ngx_stream_core_module", "session_memory_limit", EXTRA, "",
     "ours: a bound of its own on what one session may take"},
    {"ngx_stream_log_module", "access_log", DEFAULT, "", "there is no log unless one is written"},
    {"ngx_stream_proxy_module", "proxy_ssl_name", DEFAULT, "",
     "the host of proxy_pass, unless it is written"},
    {"ngx_stream_rdp_preread_module", "rdp_preread", EXTRA, "", "Angie has it"},
    {"ngx_stream_*_module", "*enable_ntls", MISSING, "", "of Tongsuo, a fork of OpenSSL"},
    {"ngx_stream_*_module", "*ssl_enc_certificate", MISSING, "", "of Tongsuo"},
    {"ngx_stream_*_module", "*ssl_enc_certificate_key", MISSING, "", "of Tongsuo"},
    {"ngx_stream_*_module", "*ssl_sign_certificate", MISSING, "", "of Tongsuo"},
    {"ngx_stream_*_module", "*ssl_sign_certificate_key", MISSING, "", "of Tongsuo"},
    {"ngx_stream_ssl_module", "ssl_certificate_watch", EXTRA, "",
     "the rows of TLS are one family for http and stream"},
    {"ngx_stream_ssl_module", "ssl_pass_phrase_dialog", EXTRA, "",
     "the rows of TLS are one family for http and stream"},
    {"ngx_stream_ssl_module", "ssl_early_data", EXTRA, "",
     "the rows of TLS are one family for http and stream"},
    {"ngx_stream_ssl_module", "ssl_buffer_size", EXTRA, "",
     "the rows of TLS are one family for http and stream"},

    /* Defaults that a table cannot hold, or that say the same in other words. */
    {CORE, "user", DEFAULT, NULL, "configure says who"},
    {"ngx_dso_module", "path", DEFAULT, NULL, "configure says where, relative to the run prefix"},
    {"ngx_regex_module", "pcre_jit", DEFAULT, "on",
     "expressions match the same, faster; nginx has it off for builds of PCRE of long ago"},
    {HTTP, "client_body_temp_path", DEFAULT, "",
     "configure says where; made when no level of the configuration has one"},
    {HTTP, "error_log", DEFAULT, "", "inherited from the main level, which has the default"},
    {HTTP, "listen", DEFAULT, "",
     "depends on the user, so code decides: *:80, or *:8000 without root's rights"},
    {HTTP, "max_ranges", DEFAULT, "2147483647", "no limit, as a number"},
    {HTTP, "server_info", DEFAULT, "off",
     "users of nginx expect plain pages; server_admin, which only Tengine has, turns it on"},
    {HTTP, "server_name", DEFAULT, "",
     "a server without names gets the empty one when its block was read"},
    {HTTP, "types", DEFAULT, "", "the three types are there when no level has a block of its own"},
    {"ngx_http_log_module", "access_log", DEFAULT, "",
     "the default log is opened when no level has one"},
    {"ngx_http_log_module", "log_format", DEFAULT, "", "\"combined\" is always there"},
    {"ngx_http_slowfs_module", "slowfs_temp_path", DEFAULT, "",
     "beside their place in the cache: /tmp is everybody's"},
    {PROXY, "proxy_cache_key", DEFAULT, "", "the module gives it where no level has one"},
    {"ngx_http_grpc_module", "grpc_allow_upstream", ARGUMENTS, "1+",
     "as its kin in all other protocols"},
    {"ngx_http_grpc_module", "grpc_set_header", DEFAULT, "",
     "the length is sent where it is known unless a level sets it"},
    {PROXY, "proxy_set_header", DEFAULT, "", "both fields are sent unless a level sets them"},
    {"ngx_http_userid_filter_module", "userid_service", DEFAULT, "",
     "the address that the client has reached, unless it is written"},
    {FAMILY, "*_param", DEFAULT, "", "HTTP_HOST is sent unless a level sets it"},
    {FAMILY, "*_ssl_name", DEFAULT, "", "the host of *_pass, unless it is written"},
    {FAMILY, "*_temp_path", DEFAULT, "",
     "configure says where; made when no level of the configuration has one"},
    {FAMILY, "*_busy_buffers_size", DEFAULT, "",
     "two buffers, whatever their size is at that place"},
    {FAMILY, "*_temp_file_write_size", DEFAULT, "",
     "two buffers, whatever their size is at that place"},
    {FAMILY, "*_cache_max_range_offset", DEFAULT, "9223372036854775807", "no limit, as a number"},
    {FAMILY, "*_sndbuf_size", DEFAULT, "", "an older name: none, as *_socket_sndbuf has it"},
    {FAMILY, "*_rcvbuf_size", DEFAULT, "", "an older name: none, as *_socket_rcvbuf has it"},
    {SSL, "ssl_pass_phrase_dialog", DEFAULT, "", "the terminal, where nothing is said"},
    {FASTCGI, "fastcgi_keep_conn", DEFAULT, "auto",
     "connections are kept with backends that say that they are made for it"},
    {CHECK, "check", DEFAULT, "",
     "without it nothing is checked; the fact are its parameters' defaults"},
    {UPSTREAM, "rr_discarded_range", DEFAULT, "0",
     "round robin begins with the first, as in nginx"},
    {UPSTREAM, "upstream_change_no_server_status", DEFAULT, "on",
     "a group without a usable server gives 502, as in nginx; Tengine gives 500 unless told"},
    {STICKY, "session_sticky", DEFAULT, "",
     "without it nobody is bound; the fact are its parameters' defaults"},

    {"ngx_http_log_module", "log_format", CONTEXTS, "http,server,location", "as Tengine has it"},

    /* Arguments. */
    {HTTP, "error_page", ARGUMENTS, "1+",
     "Tengine's \"error_page default\" has one; the count is checked when the row is read"},
    {HTTP, "keepalive_disable", ARGUMENTS, "1+",
     "all three words may be named, each more than once"},
    {"ngx_http_upstream_keepalive_module", "keepalive", ARGUMENTS, "1+",
     "nginx's `local` and Tengine's slices"},
    {"ngx_http_limit_req_module", "limit_req", ARGUMENTS, "1-4",
     "forbid_action, as Tengine has it"},
    {"ngx_http_limit_req_module", "limit_req_zone", ARGUMENTS, "3+",
     "several variables, as Tengine has them"},
    {"ngx_http_zstd_filter_module", "zstd_min_length", ARGUMENTS, "1",
     "one length; Tengine takes more words and looks at the first"},

    /* Not to come. */
    {FAMILY, "*enable_ntls", MISSING, "", "of Tongsuo, a fork of OpenSSL"},
    {FAMILY, "*_ssl_sign_certificate", MISSING, "", "of Tongsuo"},
    {FAMILY, "*_ssl_sign_certificate_key", MISSING, "", "of Tongsuo"},
    {FAMILY, "*_ssl_enc_certificate", MISSING, "", "of Tongsuo"},
    {FAMILY, "*_ssl_enc_certificate_key", MISSING, "", "of Tongsuo"},
    {SSL, "ssl_*_certificate", MISSING, "", "of Tongsuo"},
    {SSL, "ssl_*_certificate_key", MISSING, "", "of Tongsuo"},
    {SSL, "ssl_async", MISSING, "", "needs an engine that works asynchronously"},
    {"ngx_http_v2_module", "spdy_*", MISSING, "", "SPDY is gone; last in Tengine 2.3.4"},

    /* Ours alone. */
    {HTTP, "compression_memory_limit", EXTRA, "", "bounds what slow clients make compressors take"},
    {"ngx_http_gunzip_filter_module", "gunzip_max_ratio", EXTRA, "",
     "bounds what a few compressed bytes may come to"},
    {"ngx_cache_path_status_module", "cache_path_status", EXTRA, "",
     "no public source is known: the interface is ours"},
    {"ngx_http_fancyindex_module", "fancyindex*", EXTRA, "", "a module that people add to nginx"},
    {"ngx_http_array_var_module", "*", EXTRA, "", "likewise"},
    {"ngx_http_auth_ldap_module", "*", EXTRA, "", "likewise"},
    {"ngx_http_auth_pam_module", "*", EXTRA, "", "likewise"},
    {"ngx_http_dav_ext_module", "*", EXTRA, "", "likewise"},
    {"ngx_http_echo_module", "*", EXTRA, "", "likewise"},
    {"ngx_http_headers_more_filter_module", "*", EXTRA, "", "likewise"},
    {"ngx_http_memc_module", "*", EXTRA, "", "likewise"},
    {"ngx_http_modsecurity_module", "*", EXTRA, "", "likewise"},
    {"ngx_http_redis2_module", "*", EXTRA, "", "likewise"},
    {"ngx_http_set_misc_module", "*", EXTRA, "", "likewise"},
    {"ngx_http_srcache_filter_module", "*", EXTRA, "", "likewise"},
    {"ngx_http_subs_filter_module", "*", EXTRA, "", "likewise"},
    {"ngx_http_uploadprogress_module", "*", EXTRA, "", "likewise"},
    {"ngx_http_upstream_fair_module", "*", EXTRA, "", "likewise"},
    {"ngx_http_debug_pool_module", "debug_pool", CONTEXTS, "server,location",
     "as its documentation has it, and as its siblings"},
    {"ngx_proc_core_module", "count", MISSING, "",
     "no module has a process: nothing can stand in the block of one"},
    {"ngx_proc_core_module", "delay_start", MISSING, "", "likewise"},
    {"ngx_proc_core_module", "priority", MISSING, "", "likewise"},
    {"ngx_proc_core_module", "respawn", MISSING, "", "likewise"},
    {HTTP, "max_self_hops", EXTRA, "", "ends what the server passes on to itself"},
    {SSL, "ssl_certificate_watch", EXTRA, "", "certificates that change without a reload"},
    {HTTP, "request_memory_limit", EXTRA, "", "bounds what one request takes of memory"},
    {"ngx_event_core_module", "stall_threshold", EXTRA, "",
     "its context is events: the facts have it in ngx_core_module"},
    {"ngx_event_core_module", "worker_requests", EXTRA, "", "bounds what waits for its clients"},
    {PROXY, "proxy_protocol", EXTRA, "", "nginx has it for stream and mail only"},

    /* Ours by another name or place. */
    {"ngx_dso_module", "include", MISSING, "",
     "the include of ngx_conf_module works in this block, too"},
    {HTTP, "try_files", MISSING, "",
     "in ngx_http_try_files_module, as nginx has it; Tengine 2 had it here"},
    {"ngx_backtrace_module", "backtrace_log", DEFAULT, "", "the error log, wherever that is"},
    {"ngx_http_reqstat_module", "req_status_zone", ARGUMENTS, "3",
     "name, key and size: none may be left out"},
    {"ngx_http_reqstat_module", "req_status_zone_key_length", DEFAULT, "",
     "of a zone, which names it: there is no row to say it"},
    {"ngx_http_reqstat_module", "req_status_zone_recycle", DEFAULT, "", "likewise"},
    {"ngx_http_slab_stat_module", "slab_stat", CONTEXTS, "server,location",
     "Tengine's documents have it in a server, too"},
    {"ngx_http_debug_conn_module", "debug_conn", CONTEXTS, "server,location", "likewise"},
    {"ngx_http_debug_timer_module", "debug_timer", CONTEXTS, "server,location", "likewise"},
    {"ngx_stream_geoip2_module", "geoip2", EXTRA, "",
     "of a module that is not nginx's: Debian's is the reference"},
    {"ngx_http_geoip2_module", "geoip2", EXTRA, "",
     "of a module that is not nginx's: Debian's is the reference"},
    {"ngx_http_geoip2_module", "geoip2_proxy", EXTRA, "", "likewise"},
    {"ngx_http_geoip2_module", "geoip2_proxy_recursive", EXTRA, "", "likewise"},
    {"ngx_http_metrics_module", "metrics", EXTRA, "", "numbers for Prometheus and for people"},
    {"ngx_http_metrics_module", "metrics_zone_size", EXTRA, "", "memory of these numbers"},
    {"ngx_http_metrics_module", "status_zone", EXTRA, "",
     "nginx Plus has it in a module of its own"},
    {"ngx_errlog_module", "xquic_log", MISSING, "",
     "of Tengine's QUIC library, which is not used here"},
    /* Mail. */
    {"ngx_mail_core_module", "error_log", DEFAULT, "",
     "inherited from the main level, which has the default"},
    {"ngx_mail_core_module", "resolver", DEFAULT, "", "off is what there is without the directive"},
    {"ngx_mail_core_module", "server_name", DEFAULT, "", "code asks the machine for its name"},
    {"ngx_mail_ssl_module", "ssl_pass_phrase_dialog", DEFAULT, "",
     "builtin is what there is without the directive"},
    {"ngx_mail_ssl_module", "ssl_certificate_cache", EXTRA, "",
     "the rows of TLS are those of all protocols"},
    {"ngx_mail_ssl_module", "ssl_certificate_watch", EXTRA, "",
     "the rows of TLS are those of all protocols"},
    {"ngx_stream_status_zone_module", "status_zone", EXTRA, "",
     "nginx Plus has it in the stream core"},
    {"ngx_mail_ssl_module", "ssl_ocsp", EXTRA, "", "the rows of TLS are those of all protocols"},
    {"ngx_mail_ssl_module", "ssl_ocsp_responder", EXTRA, "",
     "the rows of TLS are those of all protocols"},
    {"ngx_mail_ssl_module", "ssl_ocsp_cache", EXTRA, "",
     "the rows of TLS are those of all protocols"},
    {"ngx_mail_ssl_module", "ssl_stapling", EXTRA, "",
     "the rows of TLS are those of all protocols"},
    {"ngx_mail_ssl_module", "ssl_stapling_file", EXTRA, "",
     "the rows of TLS are those of all protocols"},
    {"ngx_mail_ssl_module", "ssl_stapling_responder", EXTRA, "",
     "the rows of TLS are those of all protocols"},
    {"ngx_mail_ssl_module", "ssl_stapling_verify", EXTRA, "",
     "the rows of TLS are those of all protocols"},
    {"ngx_mail_ssl_module", "ssl_early_data", EXTRA, "",
     "the rows of TLS are those of all protocols"},
    {"ngx_mail_ssl_module", "ssl_reject_handshake", EXTRA, "",
     "the rows of TLS are those of all protocols"},
    {"ngx_mail_ssl_module", "ssl_ech_file", EXTRA, "",
     "the rows of TLS are those of all protocols"},
    {"ngx_mail_ssl_module", "ssl_buffer_size", EXTRA, "",
     "the rows of TLS are those of all protocols"},
    {"ngx_mail_ssl_module", "ssl_key_log", EXTRA, "", "the rows of TLS are those of all protocols"},

    /* OpenTelemetry. */
    {"ngx_otel_module", "*", EXTRA, "",
     "lines of its otel_exporter block, which the facts have apart"},
};

#undef CORE
#undef HTTP
#undef PROXY
#undef FASTCGI
#undef UPSTREAM
#undef CHECK
#undef STICKY
#undef SSL
#undef FAMILY

#endif
