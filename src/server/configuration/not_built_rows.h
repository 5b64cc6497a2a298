/* Modules that a build can be without, and their directives. Written by auto/not_built.py out of
 * the catalogue of facts, not by hand. Read by not_built.c alone. */
#ifndef SERVER_NOT_BUILT_ROWS_H
#define SERVER_NOT_BUILT_ROWS_H

/* One module. */
struct not_built_row {
    const char *module;
    const char *names; /* of its directives, a blank between two; those inside of blocks of its own
                          are left out, so that it may be empty */
};

/* clang-format off */
static const struct not_built_row not_built_rows[] = {
    {"ngx_aio_module", ""},
    {"ngx_backtrace_module", "backtrace_log backtrace_max_stack_size"},
    {"ngx_cache_path_status_module", "cache_path_status"},
    {"ngx_devpoll_module", "devpoll_changes devpoll_events"},
    {"ngx_eventport_module", "eventport_events"},
    {"ngx_google_perftools_module", "google_perftools_profiles"},
    {"ngx_http_access_module", "allow deny"},
    {"ngx_http_acme_module",
     "accept_terms_of_service account_key acme_certificate acme_issuer acme_shared_zone "
     "challenge common_name_in_csr contact dns_hook dns_wait external_account_key "
     "preferred_chain profile ssl_verify state_path uri"},
    {"ngx_http_addition_filter_module", "add_after_body add_before_body addition_types"},
    {"ngx_http_api_module", "api status_zone"},
    {"ngx_http_append_header_module", "append_header append_header_separator"},
    {"ngx_http_array_var_module", "array_join array_map array_map_op array_split"},
    {"ngx_http_auth_basic_module", "auth_basic auth_basic_user_file"},
    {"ngx_http_auth_jwt_module",
     "auth_jwt auth_jwt_claim_set auth_jwt_header_set auth_jwt_key_cache auth_jwt_key_file "
     "auth_jwt_key_request auth_jwt_leeway auth_jwt_require auth_jwt_type"},
    {"ngx_http_auth_ldap_module",
     "auth_ldap auth_ldap_cache_enabled auth_ldap_cache_expiration_time auth_ldap_cache_size "
     "auth_ldap_servers ldap_server"},
    {"ngx_http_auth_pam_module",
     "auth_pam auth_pam_config_directory auth_pam_service_name auth_pam_set_pam_env"},
    {"ngx_http_auth_request_module", "auth_request auth_request_set"},
    {"ngx_http_auth_require_module", "auth_require"},
    {"ngx_http_autoindex_module",
     "autoindex autoindex_exact_size autoindex_format autoindex_localtime"},
    {"ngx_http_brotli_filter_module",
     "brotli brotli_buffers brotli_comp_level brotli_min_length brotli_types brotli_window"},
    {"ngx_http_brotli_static_module", "brotli_static"},
    {"ngx_http_browser_module",
     "ancient_browser ancient_browser_value modern_browser modern_browser_value"},
    {"ngx_http_charset_filter_module",
     "charset charset_map charset_types override_charset source_charset"},
    {"ngx_http_concat_module",
     "concat concat_delimiter concat_ignore_file_error concat_max_files concat_types "
     "concat_unique"},
    {"ngx_http_dav_ext_module", "dav_ext_lock dav_ext_lock_zone dav_ext_methods"},
    {"ngx_http_dav_module", "create_full_put_path dav_access dav_methods min_delete_depth"},
    {"ngx_http_debug_conn_module", "debug_conn"},
    {"ngx_http_debug_pool_module", "debug_pool"},
    {"ngx_http_debug_request_module", "debug_request"},
    {"ngx_http_debug_timer_module", "debug_timer"},
    {"ngx_http_degradation_module", "degradation degrade"},
    {"ngx_http_dubbo_module",
     "dubbo_bind dubbo_buffer_size dubbo_connect_timeout dubbo_heartbeat_interval "
     "dubbo_hide_header dubbo_ignore_headers dubbo_intercept_errors dubbo_next_upstream "
     "dubbo_next_upstream_timeout dubbo_next_upstream_tries dubbo_pass dubbo_pass_all_headers "
     "dubbo_pass_body dubbo_pass_header dubbo_pass_set dubbo_read_timeout dubbo_send_timeout "
     "dubbo_socket_keepalive dubbo_upstream_error_info"},
    {"ngx_http_dyups_module",
     "dyups_interface dyups_read_msg_log dyups_read_msg_timeout dyups_shm_zone_size "
     "dyups_trylock dyups_upstream_conf"},
    {"ngx_http_echo_module",
     "echo echo_abort_parent echo_after_body echo_before_body echo_blocking_sleep "
     "echo_duplicate echo_end echo_exec echo_flush echo_foreach_split echo_location "
     "echo_location_async echo_read_request_body echo_request_body echo_reset_timer echo_sleep "
     "echo_status echo_subrequest echo_subrequest_async"},
    {"ngx_http_empty_gif_module", "empty_gif"},
    {"ngx_http_f4f_module", "f4f f4f_buffer_size"},
    {"ngx_http_fancyindex_module",
     "fancyindex fancyindex_css_href fancyindex_default_sort fancyindex_directories_first "
     "fancyindex_exact_size fancyindex_footer fancyindex_header fancyindex_hide_parent_dir "
     "fancyindex_hide_symlinks fancyindex_ignore fancyindex_localtime fancyindex_name_length "
     "fancyindex_show_dotfiles fancyindex_show_path fancyindex_time_format"},
    {"ngx_http_fastcgi_module",
     "fastcgi_allow_upstream fastcgi_bind fastcgi_bind_dynamic fastcgi_buffer_size "
     "fastcgi_buffering fastcgi_buffers fastcgi_busy_buffers_size fastcgi_cache "
     "fastcgi_cache_background_update fastcgi_cache_bypass fastcgi_cache_key "
     "fastcgi_cache_lock fastcgi_cache_lock_age fastcgi_cache_lock_timeout "
     "fastcgi_cache_max_range_offset fastcgi_cache_methods fastcgi_cache_min_uses "
     "fastcgi_cache_path fastcgi_cache_purge fastcgi_cache_revalidate fastcgi_cache_use_stale "
     "fastcgi_cache_valid fastcgi_catch_stderr fastcgi_connect_timeout fastcgi_force_ranges "
     "fastcgi_hide_header fastcgi_ignore_client_abort fastcgi_ignore_headers fastcgi_index "
     "fastcgi_intercept_errors fastcgi_keep_conn fastcgi_limit_rate fastcgi_max_temp_file_size "
     "fastcgi_next_upstream fastcgi_next_upstream_timeout fastcgi_next_upstream_tries "
     "fastcgi_no_cache fastcgi_param fastcgi_param_inherit fastcgi_pass fastcgi_pass_header "
     "fastcgi_pass_request_body fastcgi_pass_request_headers fastcgi_rcvbuf_size "
     "fastcgi_read_timeout fastcgi_request_buffering fastcgi_request_dynamic "
     "fastcgi_send_lowat fastcgi_send_timeout fastcgi_sndbuf_size fastcgi_socket_keepalive "
     "fastcgi_socket_rcvbuf fastcgi_socket_sndbuf fastcgi_split_path_info fastcgi_store "
     "fastcgi_store_access fastcgi_temp_file_write_size fastcgi_temp_path "
     "fastcgi_upstream_tries"},
    {"ngx_http_flv_module", "flv"},
    {"ngx_http_footer_filter_module", "footer footer_types"},
    {"ngx_http_geo_module", "geo"},
    {"ngx_http_geoip2_module", "geoip2 geoip2_proxy geoip2_proxy_recursive"},
    {"ngx_http_geoip_module",
     "geoip_city geoip_country geoip_org geoip_proxy geoip_proxy_recursive geoip_region"},
    {"ngx_http_grpc_module",
     "grpc_allow_upstream grpc_bind grpc_bind_dynamic grpc_buffer_size grpc_connect_timeout "
     "grpc_enable_ntls grpc_hide_header grpc_http3_max_concurrent_streams "
     "grpc_http3_max_table_capacity grpc_http3_stream_buffer_size grpc_http_version "
     "grpc_ignore_headers grpc_intercept_errors grpc_next_upstream grpc_next_upstream_timeout "
     "grpc_next_upstream_tries grpc_pass grpc_pass_header grpc_quic_active_connection_id_limit "
     "grpc_quic_gso grpc_quic_host_key grpc_read_timeout grpc_request_dynamic "
     "grpc_send_timeout grpc_set_header grpc_set_header_inherit grpc_socket_keepalive "
     "grpc_socket_rcvbuf grpc_socket_sndbuf grpc_ssl_certificate grpc_ssl_certificate_cache "
     "grpc_ssl_certificate_key grpc_ssl_ciphers grpc_ssl_conf_command grpc_ssl_crl "
     "grpc_ssl_enc_certificate grpc_ssl_enc_certificate_key grpc_ssl_key_log grpc_ssl_name "
     "grpc_ssl_password_file grpc_ssl_protocols grpc_ssl_server_name grpc_ssl_session_reuse "
     "grpc_ssl_sign_certificate grpc_ssl_sign_certificate_key grpc_ssl_trusted_certificate "
     "grpc_ssl_verify grpc_ssl_verify_depth"},
    {"ngx_http_gunzip_filter_module", "gunzip gunzip_buffers gunzip_max_ratio"},
    {"ngx_http_gzip_filter_module",
     "gzip gzip_buffers gzip_clear_etag gzip_comp_level gzip_hash gzip_min_length "
     "gzip_no_buffer gzip_types gzip_window postpone_gzipping"},
    {"ngx_http_gzip_static_module", "gzip_static"},
    {"ngx_http_headers_more_filter_module",
     "more_clear_headers more_clear_input_headers more_set_headers more_set_input_headers"},
    {"ngx_http_hls_module",
     "hls hls_buffers hls_forward_args hls_fragment hls_mp4_buffer_size "
     "hls_mp4_max_buffer_size"},
    {"ngx_http_image_filter_module",
     "image_filter image_filter_buffer image_filter_crop_offset image_filter_interlace "
     "image_filter_jpeg_quality image_filter_max_pixels image_filter_sharpen "
     "image_filter_transparency image_filter_webp_quality"},
    {"ngx_http_internal_redirect_module", "internal_redirect"},
    {"ngx_http_js_module",
     "js_access js_body_filter js_content js_context_reuse js_engine js_fetch_buffer_size "
     "js_fetch_ciphers js_fetch_keepalive js_fetch_keepalive_requests js_fetch_keepalive_time "
     "js_fetch_keepalive_timeout js_fetch_max_response_buffer_size js_fetch_protocols "
     "js_fetch_proxy js_fetch_timeout js_fetch_trusted_certificate js_fetch_verify "
     "js_fetch_verify_depth js_header_filter js_import js_include js_load_http_native_module "
     "js_path js_periodic js_preload_object js_set js_shared_dict_zone js_var"},
    {"ngx_http_keyval_module", "keyval keyval_zone keyval_zone_redis"},
    {"ngx_http_limit_conn_module",
     "limit_conn limit_conn_dry_run limit_conn_log_level limit_conn_status limit_conn_zone "
     "limit_zone"},
    {"ngx_http_limit_req_module",
     "limit_req limit_req_dry_run limit_req_log_level limit_req_status limit_req_whitelist "
     "limit_req_zone"},
    {"ngx_http_lua_module",
     "access_by_lua access_by_lua_block access_by_lua_file access_by_lua_no_postpone "
     "balancer_by_lua_block balancer_by_lua_file balancer_keepalive body_filter_by_lua "
     "body_filter_by_lua_block body_filter_by_lua_file content_by_lua content_by_lua_block "
     "content_by_lua_file exit_worker_by_lua exit_worker_by_lua_block exit_worker_by_lua_file "
     "header_filter_by_lua header_filter_by_lua_block header_filter_by_lua_file init_by_lua "
     "init_by_lua_block init_by_lua_file init_worker_by_lua init_worker_by_lua_block "
     "init_worker_by_lua_file log_by_lua log_by_lua_block log_by_lua_file "
     "lua_capture_error_log lua_capture_max_size lua_check_client_abort lua_code_cache "
     "lua_http10_buffering lua_load_resty_core lua_malloc_trim lua_max_pending_timers "
     "lua_max_running_timers lua_memory_limit lua_need_request_body lua_package_cpath "
     "lua_package_path lua_regex_cache_max_entries lua_regex_match_limit lua_sa_restart "
     "lua_shared_dict lua_socket_buffer_size lua_socket_connect_timeout "
     "lua_socket_keepalive_timeout lua_socket_log_errors lua_socket_pool_size "
     "lua_socket_read_timeout lua_socket_send_lowat lua_socket_send_timeout "
     "lua_ssl_certificate lua_ssl_certificate_key lua_ssl_ciphers lua_ssl_conf_command "
     "lua_ssl_crl lua_ssl_key_log lua_ssl_protocols lua_ssl_trusted_certificate "
     "lua_ssl_verify_depth lua_thread_cache_max_entries lua_time_limit "
     "lua_transform_underscores_in_response_headers lua_upstream_skip_openssl_default_verify "
     "lua_use_default_type lua_worker_thread_vm_pool_size precontent_by_lua_block "
     "precontent_by_lua_file precontent_by_lua_no_postpone proxy_ssl_certificate_by_lua_block "
     "proxy_ssl_certificate_by_lua_file proxy_ssl_verify_by_lua_block "
     "proxy_ssl_verify_by_lua_file rewrite_by_lua rewrite_by_lua_block rewrite_by_lua_file "
     "rewrite_by_lua_no_postpone server_rewrite_by_lua_block server_rewrite_by_lua_file "
     "set_by_lua set_by_lua_block set_by_lua_file ssl_certificate_by_lua_block "
     "ssl_certificate_by_lua_file ssl_client_hello_by_lua_block ssl_client_hello_by_lua_file "
     "ssl_session_fetch_by_lua_block ssl_session_fetch_by_lua_file "
     "ssl_session_store_by_lua_block ssl_session_store_by_lua_file"},
    {"ngx_http_map_module", "map map_hash_bucket_size map_hash_max_size"},
    {"ngx_http_memc_module",
     "memc_bind memc_bind_dynamic memc_buffer_size memc_cmds_allowed memc_connect_timeout "
     "memc_flags_to_last_modified memc_next_upstream memc_next_upstream_timeout "
     "memc_next_upstream_tries memc_pass memc_read_timeout memc_send_timeout "
     "memc_socket_keepalive"},
    {"ngx_http_memcached_module",
     "memcached_allow_upstream memcached_bind memcached_bind_dynamic memcached_buffer_size "
     "memcached_connect_timeout memcached_gzip_flag memcached_next_upstream "
     "memcached_next_upstream_timeout memcached_next_upstream_tries memcached_pass "
     "memcached_read_timeout memcached_send_timeout memcached_socket_keepalive "
     "memcached_upstream_tries"},
    {"ngx_http_metrics_module", "metrics metrics_zone_size"},
    {"ngx_http_mirror_module", "mirror mirror_request_body"},
    {"ngx_http_modsecurity_module",
     "modsecurity modsecurity_rules modsecurity_rules_file modsecurity_rules_remote "
     "modsecurity_transaction_id modsecurity_use_error_log"},
    {"ngx_http_mp4_module",
     "mp4 mp4_buffer_size mp4_limit_rate mp4_limit_rate_after mp4_max_buffer_size "
     "mp4_start_key_frame"},
    {"ngx_http_multi_upstream_module", "multi"},
    {"ngx_http_num_map_module", "num_map"},
    {"ngx_http_oidc_module",
     "auth_oidc client_id client_secret config_url cookie_name extra_auth_args "
     "frontchannel_logout_uri issuer logout_token_hint logout_uri oidc_provider pkce "
     "post_logout_uri redirect_uri scope session_store session_timeout userinfo"},
    {"ngx_http_perl_module", "perl perl_modules perl_require perl_set"},
    {"ngx_http_proxy_connect_module",
     "proxy_connect proxy_connect_address proxy_connect_allow proxy_connect_bind "
     "proxy_connect_connect_timeout proxy_connect_data_timeout proxy_connect_read_timeout "
     "proxy_connect_response proxy_connect_send_lowat proxy_connect_send_timeout"},
    {"ngx_http_proxy_module",
     "proxy_allow_upstream proxy_bind proxy_bind_dynamic proxy_buffer_size proxy_buffering "
     "proxy_buffers proxy_busy_buffers_size proxy_cache proxy_cache_background_update "
     "proxy_cache_bypass proxy_cache_convert_head proxy_cache_key proxy_cache_lock "
     "proxy_cache_lock_age proxy_cache_lock_timeout proxy_cache_max_range_offset "
     "proxy_cache_methods proxy_cache_min_uses proxy_cache_path proxy_cache_purge "
     "proxy_cache_revalidate proxy_cache_use_stale proxy_cache_valid proxy_connect_timeout "
     "proxy_cookie_domain proxy_cookie_flags proxy_cookie_path proxy_enable_ntls "
     "proxy_force_ranges proxy_headers_hash_bucket_size proxy_headers_hash_max_size "
     "proxy_hide_header proxy_http3_hq proxy_http3_max_concurrent_streams "
     "proxy_http3_max_table_capacity proxy_http3_stream_buffer_size proxy_http_version "
     "proxy_ignore_client_abort proxy_ignore_headers proxy_intercept_errors proxy_limit_rate "
     "proxy_max_temp_file_size proxy_method proxy_next_upstream proxy_next_upstream_timeout "
     "proxy_next_upstream_tries proxy_no_cache proxy_pass proxy_pass_header "
     "proxy_pass_request_body proxy_pass_request_headers proxy_pass_trailers proxy_protocol "
     "proxy_quic_active_connection_id_limit proxy_quic_gso proxy_quic_host_key "
     "proxy_rcvbuf_size proxy_read_timeout proxy_redirect proxy_request_buffering "
     "proxy_request_dynamic proxy_send_lowat proxy_send_timeout proxy_set_body "
     "proxy_set_header proxy_set_header_inherit proxy_sndbuf_size proxy_socket_keepalive "
     "proxy_socket_rcvbuf proxy_socket_sndbuf proxy_ssl_certificate "
     "proxy_ssl_certificate_cache proxy_ssl_certificate_key proxy_ssl_ciphers "
     "proxy_ssl_conf_command proxy_ssl_crl proxy_ssl_enc_certificate "
     "proxy_ssl_enc_certificate_key proxy_ssl_key_log proxy_ssl_name proxy_ssl_password_file "
     "proxy_ssl_protocols proxy_ssl_server_name proxy_ssl_session_reuse "
     "proxy_ssl_sign_certificate proxy_ssl_sign_certificate_key proxy_ssl_trusted_certificate "
     "proxy_ssl_verify proxy_ssl_verify_depth proxy_store proxy_store_access "
     "proxy_temp_file_write_size proxy_temp_path proxy_upstream_tries"},
    {"ngx_http_proxy_protocol_vendor_module", ""},
    {"ngx_http_proxy_v2_module", ""},
    {"ngx_http_random_index_module", "random_index"},
    {"ngx_http_ready_module", "ready"},
    {"ngx_http_realip_module", "real_ip_header real_ip_recursive set_real_ip_from"},
    {"ngx_http_redis2_module",
     "redis2_bind redis2_bind_dynamic redis2_buffer_size redis2_connect_timeout "
     "redis2_literal_raw_query redis2_next_upstream redis2_next_upstream_timeout "
     "redis2_next_upstream_tries redis2_pass redis2_query redis2_raw_queries redis2_raw_query "
     "redis2_read_timeout redis2_send_timeout redis2_socket_keepalive"},
    {"ngx_http_referer_module", "referer_hash_bucket_size referer_hash_max_size valid_referers"},
    {"ngx_http_reqstat_module",
     "req_status req_status_bypass req_status_lazy req_status_show req_status_show_field "
     "req_status_zone req_status_zone_add_indicator req_status_zone_key_length "
     "req_status_zone_recycle"},
    {"ngx_http_rewrite_module",
     "break if return rewrite rewrite_log set uninitialized_variable_warn"},
    {"ngx_http_scgi_module",
     "scgi_allow_upstream scgi_bind scgi_bind_dynamic scgi_buffer_size scgi_buffering "
     "scgi_buffers scgi_busy_buffers_size scgi_cache scgi_cache_background_update "
     "scgi_cache_bypass scgi_cache_key scgi_cache_lock scgi_cache_lock_age "
     "scgi_cache_lock_timeout scgi_cache_max_range_offset scgi_cache_methods "
     "scgi_cache_min_uses scgi_cache_path scgi_cache_purge scgi_cache_revalidate "
     "scgi_cache_use_stale scgi_cache_valid scgi_connect_timeout scgi_force_ranges "
     "scgi_hide_header scgi_ignore_client_abort scgi_ignore_headers scgi_intercept_errors "
     "scgi_limit_rate scgi_max_temp_file_size scgi_next_upstream scgi_next_upstream_timeout "
     "scgi_next_upstream_tries scgi_no_cache scgi_param scgi_param_inherit scgi_pass "
     "scgi_pass_header scgi_pass_request_body scgi_pass_request_headers scgi_read_timeout "
     "scgi_request_buffering scgi_request_dynamic scgi_send_timeout scgi_socket_keepalive "
     "scgi_socket_rcvbuf scgi_socket_sndbuf scgi_store scgi_store_access "
     "scgi_temp_file_write_size scgi_temp_path scgi_upstream_tries"},
    {"ngx_http_secure_link_module", "secure_link secure_link_md5 secure_link_secret"},
    {"ngx_http_session_log_module", "session_log session_log_format session_log_zone"},
    {"ngx_http_set_misc_module",
     "set_base32_alphabet set_base32_padding set_decode_base32 set_decode_base64 "
     "set_decode_base64url set_decode_hex set_encode_base32 set_encode_base64 "
     "set_encode_base64url set_encode_hex set_escape_uri set_formatted_gmt_time "
     "set_formatted_local_time set_hashed_upstream set_hmac_sha1 set_hmac_sha256 set_if_empty "
     "set_local_today set_md5 set_misc_base32_padding set_quote_json_str set_quote_pgsql_str "
     "set_quote_sql_str set_random set_rotate set_secure_random_alphanum "
     "set_secure_random_lcalpha set_sha1 set_unescape_uri upstream_list"},
    {"ngx_http_slab_stat_module", "slab_stat"},
    {"ngx_http_slice_filter_module", "slice"},
    {"ngx_http_slowfs_module",
     "slowfs_big_file_size slowfs_cache slowfs_cache_key slowfs_cache_min_uses "
     "slowfs_cache_path slowfs_cache_purge slowfs_cache_valid slowfs_temp_path"},
    {"ngx_http_spdy_module",
     "spdy_chunk_size spdy_flow_control spdy_headers_comp spdy_init_recv_window_size "
     "spdy_keepalive_timeout spdy_max_concurrent_streams spdy_pool_size spdy_recv_buffer_size "
     "spdy_recv_timeout spdy_streams_index_size spdy_version"},
    {"ngx_http_split_clients_module", "split_clients"},
    {"ngx_http_srcache_filter_module",
     "srcache_buffer srcache_default_expire srcache_fetch srcache_fetch_skip "
     "srcache_header_buffer_size srcache_ignore_content_encoding srcache_max_expire "
     "srcache_methods srcache_request_cache_control srcache_response_cache_control "
     "srcache_store srcache_store_hide_header srcache_store_max_size srcache_store_no_cache "
     "srcache_store_no_store srcache_store_pass_header srcache_store_private "
     "srcache_store_ranges srcache_store_skip srcache_store_statuses"},
    {"ngx_http_ssi_filter_module",
     "ssi ssi_ignore_recycled_buffers ssi_last_modified ssi_min_file_chunk ssi_silent_errors "
     "ssi_types ssi_value_length"},
    {"ngx_http_ssl_module",
     "enable_ntls ssl ssl_async ssl_buffer_size ssl_certificate ssl_certificate_cache "
     "ssl_certificate_compression ssl_certificate_key ssl_certificate_watch ssl_ciphers "
     "ssl_client_certificate ssl_conf_command ssl_crl ssl_dhparam ssl_early_data "
     "ssl_ecdh_curve ssl_ech_file ssl_enc_certificate ssl_enc_certificate_key ssl_key_log "
     "ssl_ocsp ssl_ocsp_cache ssl_ocsp_responder ssl_pass_phrase_dialog ssl_password_file "
     "ssl_prefer_server_ciphers ssl_protocols ssl_reject_handshake ssl_session_cache "
     "ssl_session_ticket_key ssl_session_tickets ssl_session_timeout ssl_sign_certificate "
     "ssl_sign_certificate_key ssl_stapling ssl_stapling_file ssl_stapling_responder "
     "ssl_stapling_verify ssl_trusted_certificate ssl_verify_client "
     "ssl_verify_client_exception ssl_verify_depth"},
    {"ngx_http_status_module", "status status_format"},
    {"ngx_http_strategy_module", ""},
    {"ngx_http_stub_status_module", "stub_status"},
    {"ngx_http_sub_filter_module",
     "sub_filter sub_filter_last_modified sub_filter_once sub_filter_types"},
    {"ngx_http_subs_filter_module",
     "subs_buffers subs_filter subs_filter_bypass subs_filter_types subs_line_buffer_size"},
    {"ngx_http_sysguard_module",
     "sysguard sysguard_cpu sysguard_interval sysguard_load sysguard_log_level sysguard_mem "
     "sysguard_mode sysguard_rt"},
    {"ngx_http_tfs_module",
     "tair_timeout tfs_block_cache_zone tfs_body_buffer_size tfs_buffer_size "
     "tfs_connect_timeout tfs_enable_remote_block_cache tfs_keepalive tfs_log tfs_pass "
     "tfs_read_timeout tfs_send_lowat tfs_send_timeout tfs_upstream"},
    {"ngx_http_trim_filter_module", "trim trim_css trim_js trim_types"},
    {"ngx_http_tunnel_module",
     "tunnel_allow_upstream tunnel_bind tunnel_bind_dynamic tunnel_buffer_size "
     "tunnel_connect_timeout tunnel_next_upstream tunnel_next_upstream_timeout "
     "tunnel_next_upstream_tries tunnel_pass tunnel_read_timeout tunnel_send_lowat "
     "tunnel_send_timeout tunnel_socket_keepalive tunnel_socket_rcvbuf tunnel_socket_sndbuf"},
    {"ngx_http_uploadprogress_module",
     "report_uploads track_uploads upload_progress upload_progress_content_type "
     "upload_progress_header upload_progress_java_output upload_progress_json_output "
     "upload_progress_jsonp_output upload_progress_jsonp_parameter upload_progress_template"},
    {"ngx_http_upstream_check_module",
     "check check_fastcgi_param check_http_expect_alive check_http_send "
     "check_keepalive_requests check_shm_size check_status"},
    {"ngx_http_upstream_conf_module", "upstream_conf"},
    {"ngx_http_upstream_consistent_hash_module", "consistent_hash"},
    {"ngx_http_upstream_dynamic_module", "dynamic_resolve"},
    {"ngx_http_upstream_fair_module", "fair upstream_fair_shm_size"},
    {"ngx_http_upstream_hash_module", "hash"},
    {"ngx_http_upstream_hc_module", "health_check match"},
    {"ngx_http_upstream_ip_hash_module", "ip_hash"},
    {"ngx_http_upstream_iwrr_module", "iwrr"},
    {"ngx_http_upstream_keepalive_module",
     "keepalive keepalive_requests keepalive_time keepalive_timeout"},
    {"ngx_http_upstream_least_conn_module", "least_conn"},
    {"ngx_http_upstream_least_time_module", "least_time"},
    {"ngx_http_upstream_module", "rr_discarded_range state upstream_change_no_server_status"},
    {"ngx_http_upstream_random_module", "random"},
    {"ngx_http_upstream_session_sticky_module",
     "session_sticky session_sticky_header session_sticky_hide_cookie"},
    {"ngx_http_upstream_sticky_module", "sticky"},
    {"ngx_http_upstream_vnswrr_module", "vnswrr"},
    {"ngx_http_upstream_zone_module", "zone"},
    {"ngx_http_user_agent_module", "user_agent"},
    {"ngx_http_userid_filter_module",
     "userid userid_domain userid_expires userid_flags userid_mark userid_name userid_p3p "
     "userid_path userid_service"},
    {"ngx_http_uwsgi_module",
     "uwsgi_allow_upstream uwsgi_bind uwsgi_bind_dynamic uwsgi_buffer_size uwsgi_buffering "
     "uwsgi_buffers uwsgi_busy_buffers_size uwsgi_cache uwsgi_cache_background_update "
     "uwsgi_cache_bypass uwsgi_cache_key uwsgi_cache_lock uwsgi_cache_lock_age "
     "uwsgi_cache_lock_timeout uwsgi_cache_max_range_offset uwsgi_cache_methods "
     "uwsgi_cache_min_uses uwsgi_cache_path uwsgi_cache_purge uwsgi_cache_revalidate "
     "uwsgi_cache_use_stale uwsgi_cache_valid uwsgi_connect_timeout uwsgi_enable_ntls "
     "uwsgi_force_ranges uwsgi_hide_header uwsgi_ignore_client_abort uwsgi_ignore_headers "
     "uwsgi_intercept_errors uwsgi_limit_rate uwsgi_max_temp_file_size uwsgi_modifier1 "
     "uwsgi_modifier2 uwsgi_next_upstream uwsgi_next_upstream_timeout "
     "uwsgi_next_upstream_tries uwsgi_no_cache uwsgi_param uwsgi_param_inherit uwsgi_pass "
     "uwsgi_pass_header uwsgi_pass_request_body uwsgi_pass_request_headers uwsgi_read_timeout "
     "uwsgi_request_buffering uwsgi_request_dynamic uwsgi_send_timeout uwsgi_socket_keepalive "
     "uwsgi_socket_rcvbuf uwsgi_socket_sndbuf uwsgi_ssl_certificate "
     "uwsgi_ssl_certificate_cache uwsgi_ssl_certificate_key uwsgi_ssl_ciphers "
     "uwsgi_ssl_conf_command uwsgi_ssl_crl uwsgi_ssl_enc_certificate "
     "uwsgi_ssl_enc_certificate_key uwsgi_ssl_key_log uwsgi_ssl_name uwsgi_ssl_password_file "
     "uwsgi_ssl_protocols uwsgi_ssl_server_name uwsgi_ssl_session_reuse "
     "uwsgi_ssl_sign_certificate uwsgi_ssl_sign_certificate_key uwsgi_ssl_trusted_certificate "
     "uwsgi_ssl_verify uwsgi_ssl_verify_depth uwsgi_store uwsgi_store_access uwsgi_string "
     "uwsgi_temp_file_write_size uwsgi_temp_path uwsgi_upstream_tries"},
    {"ngx_http_v2_filter_module", ""},
    {"ngx_http_v2_module",
     "http2 http2_body_preread_size http2_chunk_size http2_idle_timeout "
     "http2_max_concurrent_pushes http2_max_concurrent_streams http2_max_field_size "
     "http2_max_header_size http2_max_requests http2_pool_size http2_push http2_push_preload "
     "http2_recv_buffer_size http2_recv_timeout http2_streams_index_size"},
    {"ngx_http_v3_filter_module", ""},
    {"ngx_http_v3_module",
     "http3 http3_alt_svc http3_hq http3_max_concurrent_streams http3_stream_buffer_size "
     "quic_active_connection_id_limit quic_congestion_control quic_gso quic_host_key "
     "quic_retry"},
    {"ngx_http_xquic_filter_module", ""},
    {"ngx_http_xquic_module",
     "xquic_ack_frequency xquic_anti_amplification_limit xquic_cid_route "
     "xquic_congestion_control xquic_conn_hash_size xquic_enable_fec xquic_enable_keylog "
     "xquic_enable_marking_reinjection xquic_enable_mempool_protection xquic_enable_multipath "
     "xquic_enable_pmtud xquic_enable_qlog_event xquic_fec_blk_log_mod xquic_fec_code_rate "
     "xquic_fec_conn_queue_rpr_timeout xquic_fec_decoder_scheme xquic_fec_encoder_scheme "
     "xquic_fec_log_on xquic_fec_mp_mode xquic_fec_packet_mask_mode xquic_fec_stream_level "
     "xquic_hash_conflict_threshold xquic_health_check_file xquic_idle_time_out "
     "xquic_init_cwnd_pkt xquic_init_pkt_out_size xquic_init_pto_us xquic_init_rtt_us "
     "xquic_intercom_socket_rcvbuf xquic_intercom_socket_sndbuf xquic_keyupdate_pkt_threshold "
     "xquic_log_file xquic_log_level xquic_manually_send xquic_max_concurrent_connection_cnt "
     "xquic_max_cps xquic_max_qps xquic_max_streams_bidi xquic_max_streams_uni "
     "xquic_min_cwnd_pkt xquic_mp_enable_reinjection xquic_mp_sched_bw_Bps_thr "
     "xquic_mp_sched_loss_percent_high xquic_mp_sched_loss_percent_low xquic_mp_sched_pto_thr "
     "xquic_mp_sched_rtt_thr_high xquic_mp_sched_rtt_thr_low xquic_multipath_scheduler "
     "xquic_pacing xquic_path_unreachable_pto_count xquic_pmtud_probing_interval "
     "xquic_probing_pkt_out_size xquic_qlog_event_importance xquic_qpack_compat_duplicate "
     "xquic_qpack_decoder_dynamic_table_size xquic_qpack_encoder_dynamic_table_size "
     "xquic_reinj_deadline_lower_bound xquic_reinj_flexible_deadline_srtt_factor "
     "xquic_reinj_hard_deadline xquic_reinjection_control xquic_server_id_length "
     "xquic_server_id_offset xquic_sndq_packets_used_max xquic_socket_rcvbuf "
     "xquic_socket_sndbuf xquic_ssl_certificate xquic_ssl_certificate_key "
     "xquic_ssl_session_ticket_key xquic_standby_path_probe_timeout "
     "xquic_stateless_reset_token_key xquic_status xquic_streams_index_size "
     "xquic_symbol_number_per_block xquic_token_key xquic_token_key_file "
     "xquic_use_new_udp_hash xquic_use_smaller_pto xquic_worker_id_offset"},
    {"ngx_http_xslt_filter_module",
     "xml_entities xml_external_entities xslt_last_modified xslt_max_size xslt_param "
     "xslt_string_param xslt_stylesheet xslt_types"},
    {"ngx_http_zstd_filter_module",
     "zstd zstd_buffers zstd_comp_level zstd_dict_file zstd_min_length zstd_types"},
    {"ngx_http_zstd_static_module", "zstd_static"},
    {"ngx_ingress_module",
     "ingress_failover_named_location ingress_gateway ingress_gateway_hash_num "
     "ingress_gateway_metadata ingress_gateway_path_segment_bucket_num "
     "ingress_gateway_pool_size ingress_gateway_shm_config ingress_gateway_update_interval"},
    {"ngx_iocp_module", "acceptex_read iocp_threads post_acceptex"},
    {"ngx_kqueue_module", "kqueue_changes kqueue_events"},
    {"ngx_mail_imap_module", "imap_auth imap_capabilities imap_client_buffer"},
    {"ngx_mail_module", "imap mail"},
    {"ngx_mail_pop3_module", "pop3_auth pop3_capabilities"},
    {"ngx_mail_smtp_module",
     "smtp_auth smtp_capabilities smtp_client_buffer smtp_greeting_delay"},
    {"ngx_mail_ssl_module",
     "ssl ssl_buffer_size ssl_certificate ssl_certificate_cache ssl_certificate_compression "
     "ssl_certificate_key ssl_certificate_watch ssl_ciphers ssl_client_certificate "
     "ssl_conf_command ssl_crl ssl_dhparam ssl_early_data ssl_ecdh_curve ssl_ech_file "
     "ssl_key_log ssl_ocsp ssl_ocsp_cache ssl_ocsp_responder ssl_pass_phrase_dialog "
     "ssl_password_file ssl_prefer_server_ciphers ssl_protocols ssl_reject_handshake "
     "ssl_session_cache ssl_session_ticket_key ssl_session_tickets ssl_session_timeout "
     "ssl_stapling ssl_stapling_file ssl_stapling_responder ssl_stapling_verify "
     "ssl_trusted_certificate ssl_verify_client ssl_verify_depth starttls"},
    {"ngx_mgmt_module", ""},
    {"ngx_otel_module",
     "batch_count batch_size endpoint header interval otel_exporter otel_resource_attr "
     "otel_service_name otel_span_attr otel_span_name otel_trace otel_trace_context "
     "otel_upstream_spans protocol timeout trusted_certificate"},
    {"ngx_poll_module", ""},
    {"ngx_proc_strategy_module", ""},
    {"ngx_procs_module", "processes"},
    {"ngx_quic_bpf_module", "quic_bpf"},
    {"ngx_quic_module", ""},
    {"ngx_rtsig_module",
     "rtsig_overflow_events rtsig_overflow_test rtsig_overflow_threshold rtsig_signo"},
    {"ngx_select_module", ""},
    {"ngx_stream_access_module", "allow deny"},
    {"ngx_stream_geo_module", "geo"},
    {"ngx_stream_geoip2_module", "geoip2"},
    {"ngx_stream_geoip_module", "geoip_city geoip_country geoip_org"},
    {"ngx_stream_js_module",
     "js_access js_context_reuse js_engine js_fetch_buffer_size js_fetch_ciphers "
     "js_fetch_keepalive js_fetch_keepalive_requests js_fetch_keepalive_time "
     "js_fetch_keepalive_timeout js_fetch_max_response_buffer_size js_fetch_protocols "
     "js_fetch_proxy js_fetch_timeout js_fetch_trusted_certificate js_fetch_verify "
     "js_fetch_verify_depth js_filter js_import js_include js_load_stream_native_module "
     "js_path js_periodic js_preload_object js_preread js_set js_shared_dict_zone js_var"},
    {"ngx_stream_keyval_module", "keyval keyval_zone keyval_zone_redis"},
    {"ngx_stream_limit_conn_module",
     "limit_conn limit_conn_dry_run limit_conn_log_level limit_conn_zone"},
    {"ngx_stream_lua_module",
     "balancer_by_lua_block balancer_by_lua_file content_by_lua content_by_lua_block "
     "content_by_lua_file exit_worker_by_lua exit_worker_by_lua_block exit_worker_by_lua_file "
     "init_by_lua init_by_lua_block init_by_lua_file init_worker_by_lua "
     "init_worker_by_lua_block init_worker_by_lua_file log_by_lua log_by_lua_block "
     "log_by_lua_file lua_add_variable lua_capture_error_log lua_check_client_abort "
     "lua_code_cache lua_load_resty_core lua_malloc_trim lua_max_pending_timers "
     "lua_max_running_timers lua_memory_limit lua_package_cpath lua_package_path "
     "lua_regex_cache_max_entries lua_regex_match_limit lua_sa_restart lua_shared_dict "
     "lua_socket_buffer_size lua_socket_connect_timeout lua_socket_keepalive_timeout "
     "lua_socket_log_errors lua_socket_pool_size lua_socket_read_timeout lua_socket_send_lowat "
     "lua_socket_send_timeout lua_ssl_certificate lua_ssl_certificate_key lua_ssl_ciphers "
     "lua_ssl_conf_command lua_ssl_crl lua_ssl_key_log lua_ssl_protocols "
     "lua_ssl_trusted_certificate lua_ssl_verify_depth lua_thread_cache_max_entries "
     "lua_time_limit lua_upstream_skip_openssl_default_verify preread_by_lua "
     "preread_by_lua_block preread_by_lua_file preread_by_lua_no_postpone "
     "proxy_ssl_certificate_by_lua_block proxy_ssl_certificate_by_lua_file "
     "proxy_ssl_verify_by_lua_block proxy_ssl_verify_by_lua_file ssl_certificate_by_lua_block "
     "ssl_certificate_by_lua_file ssl_client_hello_by_lua_block ssl_client_hello_by_lua_file"},
    {"ngx_stream_map_module", "map map_hash_bucket_size map_hash_max_size"},
    {"ngx_stream_module", "stream"},
    {"ngx_stream_mqtt_filter_module",
     "mqtt mqtt_buffers mqtt_rewrite_buffer_size mqtt_set_connect"},
    {"ngx_stream_mqtt_preread_module", "mqtt_preread"},
    {"ngx_stream_multi_upstream_module", "multi"},
    {"ngx_stream_num_map_module", "num_map"},
    {"ngx_stream_pass_module", "pass"},
    {"ngx_stream_proxy_protocol_vendor_module", ""},
    {"ngx_stream_rdp_preread_module", "rdp_preread"},
    {"ngx_stream_realip_module", "set_real_ip_from"},
    {"ngx_stream_return_module", "return"},
    {"ngx_stream_set_module", "set"},
    {"ngx_stream_split_clients_module", "split_clients"},
    {"ngx_stream_ssl_module",
     "enable_ntls ssl_alpn ssl_buffer_size ssl_certificate ssl_certificate_cache "
     "ssl_certificate_compression ssl_certificate_key ssl_certificate_watch ssl_ciphers "
     "ssl_client_certificate ssl_conf_command ssl_crl ssl_dhparam ssl_early_data "
     "ssl_ecdh_curve ssl_ech_file ssl_enc_certificate ssl_enc_certificate_key "
     "ssl_handshake_timeout ssl_key_log ssl_ocsp ssl_ocsp_cache ssl_ocsp_responder "
     "ssl_pass_phrase_dialog ssl_password_file ssl_prefer_server_ciphers ssl_protocols "
     "ssl_reject_handshake ssl_session_cache ssl_session_ticket_key ssl_session_tickets "
     "ssl_session_timeout ssl_sign_certificate ssl_sign_certificate_key ssl_sni_force "
     "ssl_stapling ssl_stapling_file ssl_stapling_responder ssl_stapling_verify "
     "ssl_trusted_certificate ssl_verify_client ssl_verify_depth"},
    {"ngx_stream_ssl_preread_module", "ssl_preread"},
    {"ngx_stream_status_zone_module", "status_zone"},
    {"ngx_stream_upstream_hash_module", "hash"},
    {"ngx_stream_upstream_hc_module", "health_check health_check_timeout match"},
    {"ngx_stream_upstream_least_conn_module", "least_conn"},
    {"ngx_stream_upstream_least_time_module", "least_time"},
    {"ngx_stream_upstream_module", "state"},
    {"ngx_stream_upstream_random_module", "random"},
    {"ngx_stream_upstream_zone_module", "zone"},
    {"ngx_stream_write_filter_module", ""},
    {"ngx_stream_zone_sync_module",
     "zone_sync zone_sync_buffers zone_sync_connect_retry_interval zone_sync_connect_timeout "
     "zone_sync_interval zone_sync_recv_buffer_size zone_sync_server zone_sync_ssl "
     "zone_sync_ssl_certificate zone_sync_ssl_certificate_key zone_sync_ssl_ciphers "
     "zone_sync_ssl_conf_command zone_sync_ssl_crl zone_sync_ssl_name "
     "zone_sync_ssl_password_file zone_sync_ssl_protocols zone_sync_ssl_server_name "
     "zone_sync_ssl_trusted_certificate zone_sync_ssl_verify zone_sync_ssl_verify_depth "
     "zone_sync_timeout"},
    {"ngx_xudp_core_module",
     "max_retries xudp_core_path xudp_no_tx xudp_off xudp_rcvnum xudp_retries_interval "
     "xudp_sndnum"},
    {"ngx_xudp_module", ""},
};
/* clang-format on */

#endif
