/* Tests of the options that protocols towards backends share: what is refused, inherited, derived.
 */
#include "http/fixture.h"

#include "http/exchange/options/settings.h"
#include "upstream/upstream.h"

#define PLACE(text) "server { listen 127.0.0.1:8080; location /a/ {\n" text "\n} }"

/* The family's settings at the innermost place that the configuration has, by the name of the first
 * row. */
static const struct exchange_settings *settings_of(const char *first_row, const char *place)
{
    struct conf *conf = &generation->conf;

    vec_each(struct http_location *, location, &http->locations) {
        if (!str_is((*location)->name, place)) {
            continue;
        }
        for (unsigned i = 0; i < conf->table_count; i++) {
            const struct directive_table *table = conf->tables[i].table;
            const struct directive *rows = table == NULL ? NULL : table->rows;
            if (rows != NULL && rows->name != NULL && strcmp(rows->name, first_row) == 0) {
                return (*location)->settings[i];
            }
        }
    }
    fail_msg("no table begins with %s, or no place is called %s", first_row, place);
    return NULL;
}

static const struct exchange_settings *scgi(void)
{
    return settings_of("scgi_bind", "/a/");
}

static void defaults(void **state)
{
    assert_read(PLACE(""));
    const struct exchange_settings *own = scgi();
    assert_string_equal(own->family->prefix, "scgi");
    assert_int_equal(own->connect_timeout_ms, 60000);
    assert_int_equal(own->next_upstream, NEXT_ERROR | NEXT_TIMEOUT);
    assert_int_equal(own->busy_buffers_size, 8192);
    assert_int_equal(own->temp_file_write_size, 8192);
    assert_int_equal(own->max_temp_file_size, 1 << 30);
    assert_int_equal(own->cache_methods, METHOD_GET | METHOD_HEAD);
    assert_int_equal(own->store_access, 0600);
    assert_true(str_ends(own->temp_path->name, STR("/scgi_temp")));
    assert_null(own->bind);
    assert_true(own->buffering);
}

static void a_protocol_without_bodies(void **state)
{
    assert_read(PLACE("memcached_buffer_size 2k;"));
    const struct exchange_settings *own = settings_of("memcached_bind", "/a/");
    assert_string_equal(own->family->prefix, "memcached");
    assert_int_equal(own->buffers.number, 1);
    assert_int_equal(own->buffers.size, 2048);
    assert_false(own->buffering);
    assert_null(own->temp_path);
}

static void local_addresses(void **state)
{
    assert_read(PLACE("scgi_bind 127.0.0.1:99;"));
    assert_text(scgi()->bind->address->constant, "127.0.0.1:99");
    assert_read(PLACE("scgi_bind [::1] transparent;"));
    assert_true(scgi()->bind->is_transparent);
    assert_true(generation->binds_transparently);
    assert_read("scgi_bind 127.0.0.1;" PLACE("scgi_bind off;"));
    assert_null(scgi()->bind);
    assert_false(generation->binds_transparently);
    assert_read(PLACE("scgi_bind $remote_addr;"));
    assert_unread(PLACE("scgi_bind 1.2.3;"), "invalid address \"1.2.3\"", 2);
    assert_unread(PLACE("scgi_bind off transparent;"), "invalid address \"off\"", 2);
    assert_unread(PLACE("scgi_bind \"\";"), "invalid address \"\"", 2);
    assert_unread(PLACE("scgi_bind 127.0.0.1:70000;"), "invalid address \"127.0.0.1:70000\"", 2);
    assert_unread(PLACE("scgi_bind 127.0.0.1 foo;"), "invalid parameter \"foo\"", 2);
}

static void words(void **state)
{
    assert_read(PLACE("scgi_next_upstream off error; scgi_cache_use_stale updating http_500;"));
    assert_int_equal(scgi()->next_upstream, NEXT_OFF);
    assert_int_equal(scgi()->cache_use_stale, NEXT_UPDATING | NEXT_500);
    assert_read("scgi_ignore_headers Expires; scgi_cache_methods POST;" PLACE(
        "scgi_ignore_headers Vary Set-Cookie;"));
    assert_int_equal(scgi()->ignore_headers, IGNORE_VARY | IGNORE_SET_COOKIE);
    assert_int_equal(scgi()->cache_methods, METHOD_GET | METHOD_HEAD | METHOD_POST);
    assert_unread(PLACE("scgi_next_upstream http_502;"), "invalid value \"http_502\"", 2);
    assert_unread(PLACE("scgi_next_upstream foo;"), "invalid value \"foo\"", 2);
    assert_unread(PLACE("memcached_next_upstream http_404;"), "invalid value \"http_404\"", 2);
    assert_unread(PLACE("scgi_cache_methods PUT;"), "invalid value \"PUT\"", 2);
}

static void sizes_follow_each_other(void **state)
{
    assert_read(PLACE("scgi_buffer_size 16k; scgi_buffers 4 16k;"));
    assert_int_equal(scgi()->busy_buffers_size, 32768);
    assert_int_equal(scgi()->temp_file_write_size, 32768);
    assert_read(
        "scgi_busy_buffers_size 12k; scgi_temp_file_write_size 20k;" PLACE("scgi_buffers 16 4k;"));
    assert_int_equal(scgi()->busy_buffers_size, 12288);
    assert_int_equal(scgi()->temp_file_write_size, 20480);
    assert_read(PLACE("scgi_max_temp_file_size 0;"));
    assert_int_equal(scgi()->max_temp_file_size, 0);
}

static void sizes_that_contradict(void **state)
{
    static const char maximum[] =
        "equal to or greater than the maximum of the value of \"scgi_buffer_size\" and one of the "
        "\"scgi_buffers\"";
    char message[400];

    snprintf(message, sizeof(message), "\"scgi_busy_buffers_size\" must be %s", maximum);
    assert_unread(PLACE("scgi_busy_buffers_size 1k;"), message, 4);
    snprintf(message, sizeof(message), "\"scgi_temp_file_write_size\" must be %s", maximum);
    assert_unread(PLACE("scgi_temp_file_write_size 1k;"), message, 4);
    snprintf(message, sizeof(message),
             "\"scgi_max_temp_file_size\" must be equal to zero to disable temporary files usage "
             "or must be %s",
             maximum);
    assert_unread(PLACE("scgi_max_temp_file_size 1;"), message, 4);
    assert_unread(PLACE("scgi_busy_buffers_size 1m;"),
                  "\"scgi_busy_buffers_size\" must be less than the size of all \"scgi_buffers\" "
                  "minus one buffer",
                  4);
    assert_unread(PLACE("scgi_buffers 1 4k;"), "there must be at least 2 \"scgi_buffers\"", 4);
    assert_unread(PLACE("scgi_max_temp_file_size x;"),
                  "\"scgi_max_temp_file_size\" directive invalid value", 2);
}

static void hidden_fields(void **state)
{
    assert_read(PLACE(""));
    assert_int_equal(scgi()->hidden->count, 0);
    assert_true((scgi()->hidden_ids & FIELD_BIT(FIELD_STATUS)) != 0);
    assert_true((scgi()->hidden_ids & FIELD_BIT(FIELD_X_ACCEL_REDIRECT)) != 0);
    assert_true((scgi()->hidden_ids & FIELD_BIT(FIELD_DATE)) == 0);
    assert_read("scgi_hide_header X-One;" PLACE(
        "scgi_hide_header X-Two; scgi_hide_header set-cookie; scgi_pass_header X-Accel-Expires;"));
    assert_null(map_get_nocase(scgi()->hidden, STR("X-One")));
    assert_non_null(map_get_nocase(scgi()->hidden, STR("x-two")));
    assert_true((scgi()->hidden_ids & FIELD_BIT(FIELD_SET_COOKIE)) != 0);
    assert_true((scgi()->hidden_ids & FIELD_BIT(FIELD_X_ACCEL_EXPIRES)) == 0);
    assert_read("scgi_hide_header X-One;" PLACE("scgi_pass_header X-One;"));
    assert_int_equal(scgi()->hidden->count, 0);
}

static void store(void **state)
{
    assert_read(PLACE("scgi_store on; scgi_store_access group:rw all:r;"));
    assert_true(scgi()->stores);
    assert_null(scgi()->store_path);
    assert_int_equal(scgi()->store_access, 0664);
    assert_read(PLACE("scgi_store /data$uri;"));
    assert_text(scgi()->store_path->source, "/data$uri");
    assert_read("scgi_cache_path c keys_zone=z:1m; scgi_cache z;" PLACE("scgi_store on;"));
    assert_null(scgi()->cache);
    assert_unread(PLACE("scgi_store_access foo:rw;"), "invalid value \"foo:rw\"", 2);
    assert_unread(PLACE("scgi_store_access user:rwx;"), "invalid value \"user:rwx\"", 2);
    assert_unread("scgi_cache_path c keys_zone=z:1m;" PLACE("scgi_cache z; scgi_store on;"),
                  "\"scgi_store\" directive is incompatible with \"scgi_cache\"", 2);
    assert_unread("scgi_cache_path c keys_zone=z:1m;" PLACE("scgi_store on; scgi_cache z;"),
                  "\"scgi_cache\" directive is incompatible with \"scgi_store\"", 2);
}

static void temp_path(void **state)
{
    assert_read(PLACE("scgi_temp_path t 1 2;"));
    assert_true(str_ends(scgi()->temp_path->name, STR("/t")));
    assert_int_equal(scgi()->temp_path->levels[1], 2);
    assert_unread(PLACE("scgi_temp_path t 1 x;"), "\"scgi_temp_path\" directive invalid value", 2);
    assert_unread(PLACE("scgi_temp_path t 9 9;"), "\"scgi_temp_path\" directive invalid value", 2);
}

static void cache_valid(void **state)
{
    assert_read(PLACE("scgi_cache_valid 5m; scgi_cache_valid 404 any 1s;"));
    const struct cache_valid *valid = scgi()->cache_valid.items;
    assert_int_equal(scgi()->cache_valid.count, 5);
    assert_int_equal(valid[0].status, 200);
    assert_int_equal(valid[2].status, 302);
    assert_int_equal(valid[2].seconds, 300);
    assert_int_equal(valid[3].status, 404);
    assert_int_equal(valid[4].status, 0);
    assert_unread(PLACE("scgi_cache_valid foo 1m;"), "invalid status \"foo\"", 2);
    assert_unread(PLACE("scgi_cache_valid 99 1m;"), "invalid status \"99\"", 2);
    assert_unread(PLACE("scgi_cache_valid any 1x;"), "invalid time value \"1x\"", 2);
}

static void purge(void **state)
{
    assert_read(PLACE("scgi_cache_purge $arg_a $arg_b;"));
    assert_int_equal(scgi()->cache_purge->predicates.count, 2);
    assert_read(PLACE("scgi_cache_purge PURGE from 127.0.0.1 10.0.0.0/8;"));
    assert_text(scgi()->cache_purge->method, "PURGE");
    assert_int_equal(scgi()->cache_purge->allowed.count, 2);
    assert_read(PLACE("scgi_cache_purge on;"));
    assert_text(scgi()->cache_purge->method, "PURGE");
    assert_read("scgi_cache_purge on;" PLACE("scgi_cache_purge off;"));
    assert_null(scgi()->cache_purge);
    assert_read("scgi_cache_path c keys_zone=z:1m;" PLACE("scgi_cache_purge z $uri;"));
    assert_null(scgi()->cache_purge);
    assert_unread(PLACE("scgi_cache_purge PURGE from foo;"), "invalid parameter \"foo\"", 2);
}

static void parameters(void **state)
{
    assert_unread(PLACE("scgi_param A b c;"), "invalid parameter \"c\"", 2);
    assert_unread(PLACE("uwsgi_modifier1 300;"),
                  "\"uwsgi_modifier1\" directive value must be between 0 and 255", 2);
    assert_unread(PLACE("uwsgi_pass suwsgi://127.0.0.1;"), "no port in upstream \"127.0.0.1\"", 2);
    assert_unread(PLACE("scgi_pass 127.0.0.1;"), "no port in upstream \"127.0.0.1\"", 2);
    assert_unread(PLACE("memcached_pass 127.0.0.1:99999;"),
                  "invalid port in upstream \"127.0.0.1:99999\"", 2);
    assert_unread(PLACE("scgi_pass 127.0.0.1:1;\nscgi_pass 127.0.0.1:1;"),
                  "\"scgi_pass\" directive is duplicate", 3);
}

/* One context for places that say the same; none where nothing is passed on over TLS. */
static void contexts(void **state)
{
    assert_read("proxy_ssl_ciphers HIGH;\n"
                "server { listen 127.0.0.1:8080;\n"
                "location /a/ { proxy_pass https://127.0.0.1:1; location /a/b/ { } }\n"
                "location /c/ { proxy_ssl_ciphers HIGH; proxy_pass $arg_a; }\n"
                "location /d/ { proxy_ssl_protocols TLSv1.3; proxy_pass https://127.0.0.1:1; }\n"
                "location /e/ { proxy_ssl_protocols TLSv1.2 TLSv1.3;\n"
                "    proxy_ssl_server_name on; proxy_pass HTTPS://127.0.0.1; }\n"
                "location /f/ { proxy_ssl_verify on; proxy_pass http://127.0.0.1:1; }\n"
                "location /g/ { uwsgi_ssl_ciphers HIGH; uwsgi_pass suwsgi://127.0.0.1:1; }\n"
                "}");
    const struct tls_context *first = settings_of("proxy_bind", "/a/")->tls.context;
    assert_non_null(first);
    assert_null(settings_of("proxy_bind", "/a/b/")->tls.context);
    assert_ptr_equal(settings_of("proxy_bind", "/c/")->tls.context, first);
    assert_ptr_equal(settings_of("proxy_bind", "/e/")->tls.context, first);
    assert_ptr_equal(settings_of("uwsgi_bind", "/g/")->tls.context, first);
    const struct tls_client_settings *other = &settings_of("proxy_bind", "/d/")->tls;
    assert_int_equal(other->protocols, TLS_1_3);
    assert_non_null(other->context);
    assert_ptr_not_equal(other->context, first);
    assert_null(settings_of("proxy_bind", "/f/")->tls.context);
}

static void places_of_handlers(void **state)
{
    assert_read(PLACE("uwsgi_pass uwsgi://127.0.0.1:1;") "upstream u { server 127.0.0.1:2; }");
    vec_each(struct http_location *, location, &http->locations) {
        if (str_is((*location)->name, "/a/")) {
            assert_true((*location)->content.redirects_slash);
            assert_true((*location)->content.carries);
            assert_text((*location)->content.group->name, "127.0.0.1:1");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        http_test(defaults),
        http_test(a_protocol_without_bodies),
        http_test(local_addresses),
        http_test(words),
        http_test(sizes_follow_each_other),
        http_test(sizes_that_contradict),
        http_test(hidden_fields),
        http_test(store),
        http_test(temp_path),
        http_test(cache_valid),
        http_test(purge),
        http_test(parameters),
        http_test(contexts),
        http_test(places_of_handlers),
    };
    return http_tests_run("exchange_rows", tests);
}
