/* Tests of what a failure leads to: error_page in all its forms, and the built-in pages. */
#include "http/fixture.h"

#define SERVER(text) "server { listen 127.0.0.1:8080; server_name site;\n" text "\n}"

static bool shows(const char *text)
{
    return str_find(got(), str_of(text)) != NULL;
}

static void the_built_in_page(void **state)
{
    assert_read(SERVER("location / {}"));
    assert_int_equal(get("/?404"), 404);
    assert_text(got(),
                "<html>\r\n<head><title>404 Not Found</title></head>\r\n<body>\r\n"
                "<center><h1>404 Not Found</h1></center>\r\n<hr><center>nginx/1.31.5</center>\r\n"
                "</body>\r\n</html>\r\n");
    assert_text(request->response.content_type, "text/html");
    assert_int_equal(request->response.content_length, got().len);
    assert_int_equal(result, HANDLER_DONE);
    assert_true(request->keepalive);
}

static void without_a_version(void **state)
{
    assert_read("server_tokens off;" SERVER("location / {}"));
    assert_int_equal(get("/?403"), 403);
    assert_true(shows("<hr><center>nginx</center>"));
}

static void codes_without_a_page(void **state)
{
    assert_read(SERVER("location / {}"));
    assert_int_equal(get("/?418"), 418);
    assert_int_equal(got().len, 0);
    assert_int_equal(request->response.content_length, 0);
}

static void codes_of_nginx_are_400_to_the_client(void **state)
{
    assert_read(SERVER("location / {}"));
    for (unsigned status = 494; status <= 497; status++) {
        char target[16];
        snprintf(target, sizeof(target), "/?%u", status);
        assert_int_equal(get(target), 400);
        assert_true(shows("<center><h1>400 Bad Request</h1></center>"));
    }
    assert_true(shows("<title>400 The plain HTTP request was sent to HTTPS port</title>"));
    assert_true(shows("<center>The plain HTTP request was sent to HTTPS port</center>"));
}

static void no_answer(void **state)
{
    assert_read("error_page 400 404 /x;" SERVER("location / {}"));
    assert_int_equal(get("/?444"), 0);
    assert_int_equal(result, HANDLER_CLOSED);
    assert_int_equal(get("/?408"), 0);
    assert_int_equal(result, HANDLER_CLOSED);
}

static void after_some_the_connection_ends(void **state)
{
    static const unsigned ending[] = {400, 413, 414, 495, 496, 497, 500, 501};
    static const unsigned going_on[] = {401, 403, 404, 405, 416, 502, 503, 504};
    char target[16];

    assert_read(SERVER("location / {}"));
    for (size_t i = 0; i < COUNT(ending); i++) {
        snprintf(target, sizeof(target), "/?%u", ending[i]);
        get(target);
        assert_false(request->keepalive);
    }
    for (size_t i = 0; i < COUNT(going_on); i++) {
        snprintf(target, sizeof(target), "/?%u", going_on[i]);
        get(target);
        assert_true(request->keepalive);
    }
}

static void to_a_path(void **state)
{
    assert_read("error_page 404 403 /page;" SERVER("location / {} location = /page { internal; }"));
    assert_int_equal(get("/a?404"), 404);
    assert_text(got(), "/page");
    assert_int_equal(get("/a?403"), 403);
    assert_text(got(), "/page");
    assert_int_equal(get("/a?500"), 500);
    assert_true(shows("500 Internal Server Error"));
    assert_int_equal(get("/page"), 404); /* it is internal */
    assert_text(got(), "/page");
}

static void the_method_becomes_get(void **state)
{
    assert_read("error_page 404 /page;" SERVER("location / {}"));
    assert_int_equal(ask("PUT /a?404 HTTP/1.1\r\nHost: a\r\n\r\n"), 404);
    assert_int_equal(request->method, METHOD_GET);
    assert_text(request->method_name, "GET");
    assert_int_equal(ask("HEAD /a?404 HTTP/1.1\r\nHost: a\r\n\r\n"), 404);
    assert_int_equal(request->method, METHOD_HEAD);
}

static void to_a_named_place(void **state)
{
    assert_read(
        "error_page 404 @name; error_page 405 @missing;" SERVER("location / {} location @name {}"));
    assert_int_equal(ask("PUT /a?404 HTTP/1.1\r\nHost: a\r\n\r\n"), 404);
    assert_text(got(), "@name");
    assert_text(request->uri, "/a");
    assert_int_equal(request->method, METHOD_PUT);
    assert_int_equal(get("/a?405"), 500);
    assert_true(was_logged("[error] could not find named location \"@missing\""));
}

static void with_another_status(void **state)
{
    assert_read(
        "error_page 404 =200 /page; error_page 403 =410 /page; error_page 402 = /page; error_page 405 = /p?406;" SERVER(
            "location / {}"));
    assert_int_equal(get("/?404"), 200);
    assert_text(got(), "/");
    assert_int_equal(get("/?403"), 410);
    assert_int_equal(get("/?402"), 200); /* the target's own */
    assert_int_equal(get("/?405"), 406);
}

static void to_another_site(void **state)
{
    assert_read("error_page 404 https://example.org/a; error_page 403 =301 http://example.org/b; "
                "error_page 402 =200 http://example.org/c;" SERVER("location / {}"));
    assert_int_equal(get("/?404"), 302);
    assert_text(request->response.location, "https://example.org/a");
    assert_true(shows("<h1>302 Found</h1>"));
    assert_int_equal(get("/?403"), 301);
    assert_text(request->response.location, "http://example.org/b");
    assert_int_equal(get("/?402"), 302); /* 200 is no redirect */
}

static void variables_in_the_target(void **state)
{
    assert_read("error_page 404 /e$request_method; error_page 403 http://$host/x;" SERVER(
        "location / {} location /eGET {}"));
    assert_int_equal(get("/?404"), 404);
    assert_text(got(), "/eGET");
    assert_int_equal(get("/?403"), 302);
    assert_text(request->response.location, "http://localhost/x");
}

static void a_page_that_fails(void **state)
{
    assert_read("error_page 404 /page?403; error_page 403 /other;" SERVER("location / {}"));
    /* Once for a request: the second failure has its built-in page, and its own status. */
    assert_int_equal(get("/?404"), 403);
    assert_true(shows("<h1>403 Forbidden</h1>"));
}

static void pages_of_pages(void **state)
{
    assert_read("recursive_error_pages on; error_page 404 /page?403; error_page 403 /other;" SERVER(
        "location / {} location /other {}"));
    assert_int_equal(get("/?404"), 403);
    assert_text(got(), "/other");
}

static enum handler_result fail_again(struct request *asked)
{
    return request_fail(asked, 404);
}

static void a_circle_of_pages(void **state)
{
    assert_read(
        "recursive_error_pages on; error_page 404 /page?404; error_page 500 /page?500;" SERVER(
            "location / {}"));
    assert_int_equal(get("/?404"), 500);
    assert_int_equal(heads, 1);
    assert_true(was_logged(
        "[error] rewrite or internal redirection cycle while internally redirecting to \"/page\""));
    assert_read(
        "recursive_error_pages on; error_page 404 @a;" SERVER("location / {} location @a {}"));
    vec_each(struct http_location *, location, &http->locations) {
        if ((*location)->kind == LOCATION_NAMED) {
            content_set(*location, fail_again, NULL);
        }
    }
    assert_int_equal(get("/?404"), 500);
    assert_true(was_logged(
        "[error] rewrite or internal redirection cycle while redirect to named location \"@a\""));
}

static void inheritance(void **state)
{
    assert_read("error_page 404 /outer; error_page 403 /outer;" SERVER(
        "location / {} location /own { error_page 404 /inner; } location /none { error_page default; }"
        "location /outer {} location /inner {}"));
    assert_int_equal(get("/?403"), 403);
    assert_text(got(), "/outer");
    assert_int_equal(get("/own?404"), 404);
    assert_text(got(), "/inner");
    assert_int_equal(get("/own?403"), 403); /* one of its own, and none is inherited */
    assert_true(shows("<h1>403 Forbidden</h1>"));
    assert_int_equal(get("/none?404"), 404);
    assert_true(shows("<h1>404 Not Found</h1>"));
}

static void a_refused_request_has_its_page(void **state)
{
    assert_read("error_page 400 @bad;" SERVER("location @bad {} location / {}"));
    assert_int_equal(ask("GET / HTTP/1.1\r\n\r\n"), 400);
    assert_text(got(), "@bad");
    assert_false(request->keepalive);
    assert_true(was_logged("[info] client sent HTTP/1.1 request without \"Host\" header"));
}

static void long_enough_for_some_browsers(void **state)
{
    static const char chrome[] =
        "GET /?404 HTTP/1.1\r\nHost: a\r\nUser-Agent: Mozilla/5.0 Chrome/1\r\n\r\n";

    assert_read(SERVER("location / {}"));
    assert_int_equal(ask(chrome), 404);
    assert_true(got().len >= 512);
    assert_int_equal(request->response.content_length, got().len);
    assert_read("msie_padding off;" SERVER("location / {}"));
    assert_int_equal(ask(chrome), 404);
    assert_true(got().len < 512);
}

static void rows_that_are_refused(void **state)
{
    assert_unread("error_page 299 /x;", "value \"299\" must be between 300 and 599", 1);
    assert_unread("error_page 600 /x;", "value \"600\" must be between 300 and 599", 1);
    assert_unread("error_page 499 /x;", "invalid value \"499\"", 1);
    assert_unread("error_page x /x;", "invalid value \"x\"", 1);
    assert_unread("error_page 404 =x /x;", "invalid value \"=x\"", 1);
    assert_unread("error_page =200 /x;", "invalid value \"=200\"", 1);
    assert_unread("error_page 404;", "invalid number of arguments in \"error_page\" directive", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        http_test(the_built_in_page),
        http_test(without_a_version),
        http_test(codes_without_a_page),
        http_test(codes_of_nginx_are_400_to_the_client),
        http_test(no_answer),
        http_test(after_some_the_connection_ends),
        http_test(to_a_path),
        http_test(the_method_becomes_get),
        http_test(to_a_named_place),
        http_test(with_another_status),
        http_test(to_another_site),
        http_test(variables_in_the_target),
        http_test(a_page_that_fails),
        http_test(pages_of_pages),
        http_test(a_circle_of_pages),
        http_test(inheritance),
        http_test(a_refused_request_has_its_page),
        http_test(long_enough_for_some_browsers),
        http_test(rows_that_are_refused),
    };

    return http_tests_run("http/error_pages", tests);
}
