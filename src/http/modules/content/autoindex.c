/* ngx_http_autoindex_module: listings of directories as HTML, JSON, JSONP and XML. */
#include <time.h>

#include "base/parse.h"
#include "base/text.h"
#include "http/files/directory.h"
#include "http/files/listing.h"
#include "http/routing/hooks.h"
#include "http/request/request.h"
#include "server/module.h"

#define NAME_WIDTH 50 /* columns for a name in HTML */
#define NAME_SHOWN 47 /* columns shown of a longer name, before "..>" */

enum { ENTRIES_A_TURN = 64 }; /* entries written before other requests get a turn */

enum format { FORMAT_HTML, FORMAT_JSON, FORMAT_JSONP, FORMAT_XML };

static const struct directive_word format_words[] = {{"html", FORMAT_HTML},
                                                     {"json", FORMAT_JSON},
                                                     {"jsonp", FORMAT_JSONP},
                                                     {"xml", FORMAT_XML},
                                                     {NULL, 0}};

struct autoindex_settings {
    bool is_on;
    unsigned format; /* an enum format */
    bool local_time; /* HTML shows local times instead of UTC */
    bool exact_size; /* HTML shows sizes in bytes */
};

#define S struct autoindex_settings
static const struct directive rows[] = {
    {"autoindex", IN_HTTP_ALL, FLAG(S, is_on), .initial = "off",
     .doc = "Enables listings of directories that have no index file."},
    {"autoindex_format", IN_HTTP_ALL, ENUM(S, format, format_words), .initial = "html",
     .doc = "Format of the listing."},
    {"autoindex_localtime", IN_HTTP_ALL, FLAG(S, local_time), .initial = "off",
     .doc = "Whether the HTML listing shows times in the local time zone instead of UTC."},
    {"autoindex_exact_size", IN_HTTP_ALL, FLAG(S, exact_size), .initial = "on",
     .doc = "Whether the HTML listing shows exact sizes in bytes instead of rounded "
            "kilobytes, megabytes and gigabytes."},
    {0},
};
#undef S

static struct settings_key key;

/* A listing that is being sent; in the request's arena. */
struct autoindex_page {
    struct request *request;
    const struct autoindex_settings *settings;
    const struct autoindex_writer *writer;
    struct str callback; /* of JSONP; empty if none was given */
    struct vec entries;  /* struct directory_entry */
    size_t at;           /* index of the next entry */
    bool has_begun;
};

/* ---- order ---- */

static int by_kind_and_name(const void *a, const void *b, void *none)
{
    const struct directory_entry *left = a;
    const struct directory_entry *right = b;

    if (left->is_directory != right->is_directory) {
        return left->is_directory ? -1 : 1;
    }
    return str_compare(left->name, right->name);
}

/* ---- HTML ---- */

static void put_name(struct buf *out, const struct directory_entry *entry, bool is_utf8)
{
    size_t width = listing_put_name(out, entry->name, NAME_WIDTH, NAME_SHOWN, is_utf8);

    if (entry->is_directory && width < NAME_WIDTH) {
        buf_append_char(out, '/');
        width++;
    }
    buf_append(out, STR("</a>"));
    buf_printf(out, "%*s", (int) (NAME_WIDTH - (width < NAME_WIDTH ? width : NAME_WIDTH) + 1), "");
}

static void put_time(struct buf *out, time_t when, bool is_local)
{
    static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    struct tm tm;

    if (is_local) {
        localtime_r(&when, &tm);
    } else {
        gmtime_r(&when, &tm);
    }
    buf_printf(out, "%02d-%s-%d %02d:%02d", tm.tm_mday, months[tm.tm_mon], tm.tm_year + 1900,
               tm.tm_hour, tm.tm_min);
}

/* "10K", "3M", "1G": eight columns, rounded; up to 9999 in bytes. */
static void put_rounded_size(struct buf *out, uint64_t size)
{
    static const struct {
        uint64_t bytes;
        char letter;
    } units[] = {{1 << 30, 'G'}, {1 << 20, 'M'}, {1 << 10, 'K'}};

    if (size <= 9999) {
        buf_printf(out, "%8llu", (unsigned long long) size);
        return;
    }
    size_t i = 0;
    while (i < 2 && size < units[i].bytes) {
        i++;
    }
    uint64_t rounded = size / units[i].bytes + (size % units[i].bytes >= units[i].bytes / 2);
    buf_printf(out, "%7llu%c", (unsigned long long) rounded, units[i].letter);
}

static void put_size(struct buf *out, const struct directory_entry *entry, bool is_exact)
{
    if (entry->is_directory) {
        buf_printf(out, "%*s", is_exact ? 20 : 8, "-");
    } else if (is_exact) {
        buf_printf(out, "%20llu", (unsigned long long) entry->size);
    } else {
        put_rounded_size(out, entry->size);
    }
}

static void begin_html(struct buf *out, const struct autoindex_page *page)
{
    buf_append(out, STR("<html>\r\n<head><title>Index of "));
    listing_put_escaped(out, page->request->uri, ESCAPE_HTML);
    buf_append(out, STR("</title></head>\r\n<body>\r\n<h1>Index of "));
    listing_put_escaped(out, page->request->uri, ESCAPE_HTML);
    buf_append(out, STR("</h1><hr><pre><a href=\"../\">../</a>\r\n"));
}

static void put_html(struct buf *out, const struct autoindex_page *page,
                     const struct directory_entry *entry)
{
    bool is_utf8 = str_equal_nocase(page->request->response.charset, STR("utf-8"));

    buf_append(out, STR("<a href=\""));
    listing_put_escaped(out, entry->name, ESCAPE_URI_COMPONENT);
    buf_append(out, entry->is_directory ? STR("/\">") : STR("\">"));
    put_name(out, entry, is_utf8);
    put_time(out, entry->mtime, page->settings->local_time);
    put_size(out, entry, page->settings->exact_size);
    buf_append(out, STR("\r\n"));
}

static void end_html(struct buf *out, const struct autoindex_page *page)
{
    buf_append(out, STR("</pre><hr></body>\r\n</html>\r\n"));
}

/* ---- JSON and XML ---- */

static struct str kind_of(const struct directory_entry *entry)
{
    return entry->is_directory ? STR("directory") : entry->is_file ? STR("file") : STR("other");
}

static void begin_json(struct buf *out, const struct autoindex_page *page)
{
    if (page->callback.len != 0) {
        buf_append(out, STR("/* callback */\r\n"));
        buf_append(out, page->callback);
        buf_append_char(out, '(');
    }
    buf_append_char(out, '[');
}

static void put_json(struct buf *out, const struct autoindex_page *page,
                     const struct directory_entry *entry)
{
    buf_append(out,
               entry == page->entries.items ? STR("\r\n{ \"name\":\"") : STR(",\r\n{ \"name\":\""));
    listing_put_escaped(out, entry->name, ESCAPE_JSON);
    buf_append(out, STR("\", \"type\":\""));
    buf_append(out, kind_of(entry));
    buf_append(out, STR("\", \"mtime\":\""));
    http_date_format(buf_reserve(out, HTTP_DATE_LENGTH), entry->mtime);
    out->len += HTTP_DATE_LENGTH;
    buf_append_char(out, '"');
    if (entry->is_file) {
        buf_printf(out, ", \"size\":%llu", (unsigned long long) entry->size);
    }
    buf_append(out, STR(" }"));
}

static void end_json(struct buf *out, const struct autoindex_page *page)
{
    buf_append(out, STR("\r\n]"));
    if (page->callback.len != 0) {
        buf_append(out, STR(");"));
    }
}

static void begin_xml(struct buf *out, const struct autoindex_page *page)
{
    buf_append(out, STR("<?xml version=\"1.0\"?>\r\n<list>\r\n"));
}

static void put_xml(struct buf *out, const struct autoindex_page *page,
                    const struct directory_entry *entry)
{
    struct str kind = kind_of(entry);
    struct tm tm;

    gmtime_r(&entry->mtime, &tm);
    buf_printf(out, "<%.*s mtime=\"%d-%02d-%02dT%02d:%02d:%02dZ\"", STR_ARG(kind),
               tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
    if (entry->is_file) {
        buf_printf(out, " size=\"%llu\"", (unsigned long long) entry->size);
    }
    buf_append_char(out, '>');
    listing_put_escaped(out, entry->name, ESCAPE_HTML);
    buf_printf(out, "</%.*s>\r\n", STR_ARG(kind));
}

static void end_xml(struct buf *out, const struct autoindex_page *page)
{
    buf_append(out, STR("</list>\r\n"));
}

/* The callback argument of JSONP; empty when there is none. False: it is not a JavaScript name. */
static bool find_callback(struct request *request, struct str *out)
{
    struct str rest = request->args;

    *out = STR_NONE;
    while (rest.data != NULL) {
        struct str argument = str_cut(&rest, '&');
        if (str_starts_nocase(argument, STR("callback="))) {
            *out = str_skip(argument, 9);
            break;
        }
    }
    for (size_t i = 0; i < out->len; i++) {
        unsigned char c = (unsigned char) out->data[i];
        if (!ascii_is_digit(c) && (ascii_lower(c) < 'a' || ascii_lower(c) > 'z') && c != '_' &&
            c != '.') {
            log_info(&request->log, 0, "client sent invalid callback name: \"%.*s\"",
                     STR_ARG(*out));
            return false;
        }
    }
    return true;
}

/* ---- the response ---- */

/* One output format. */
struct autoindex_writer {
    struct str type;    /* content type of the response */
    struct str charset; /* charset parameter of the type, or empty */
    void (*begin)(struct buf *out, const struct autoindex_page *page);
    void (*put)(struct buf *out, const struct autoindex_page *page,
                const struct directory_entry *entry);
    void (*end)(struct buf *out, const struct autoindex_page *page);
};

static const struct autoindex_writer writers[] = {
    [FORMAT_HTML] = {STR_INIT("text/html"), STR_INIT(""), begin_html, put_html, end_html},
    [FORMAT_JSON] = {STR_INIT("application/json"), STR_INIT(""), begin_json, put_json, end_json},
    [FORMAT_JSONP] = {STR_INIT("application/javascript"), STR_INIT(""), begin_json, put_json,
                      end_json},
    [FORMAT_XML] = {STR_INIT("text/xml"), STR_INIT("utf-8"), begin_xml, put_xml, end_xml},
};

/* Writes some more entries; a struct body_maker. */
static bool make_some(void *arg, struct buf *out)
{
    struct autoindex_page *page = arg;

    if (!page->has_begun) {
        page->has_begun = true;
        page->writer->begin(out, page);
    }
    for (unsigned n = 0; n < ENTRIES_A_TURN && page->at < page->entries.count; n++, page->at++) {
        page->writer->put(out, page, vec_at(&page->entries, struct directory_entry, page->at));
    }
    if (page->at < page->entries.count) {
        return true;
    }
    page->writer->end(out, page);
    return false;
}

/* MAY WAIT. */
static enum handler_result send_listing(struct autoindex_page *page)
{
    struct request *request = page->request;
    struct response *response = &request->response;

    response->status = 200;
    response->content_length = -1;
    response->content_type = page->writer->type;
    if (page->writer->charset.len != 0) {
        response->charset = page->writer->charset;
    }
    enum handler_result result = response_start(request);
    return result != HANDLER_NEXT
               ? result
               : response_produce(request, &(struct body_maker){make_some, page, NULL});
}

/* MAY WAIT. */
static enum handler_result list_directory(struct request *request)
{
    static const struct directory_view view = {.compare = by_kind_and_name};
    const struct autoindex_settings *settings = location_settings(request->location, &key);
    unsigned format = settings->format;
    struct directory directory;

    if ((request->method & (METHOD_GET | METHOD_HEAD)) == 0) {
        return HANDLER_NEXT;
    }
    struct autoindex_page *page = arena_new(&request->arena, struct autoindex_page);
    page->request = request;
    page->settings = settings;
    if (format == FORMAT_JSONP) {
        if (!find_callback(request, &page->callback)) {
            return request_fail(request, 400);
        }
        if (page->callback.len == 0) {
            format = FORMAT_JSON;
        }
    }
    page->writer = &writers[format];
    enum handler_result result = directory_open(&directory, request);
    if (result != HANDLER_NEXT) {
        return result;
    }
    if (!directory_read(&directory, &view, &page->entries)) {
        return request->main->is_over_memory ? request_fail(request, 500) : HANDLER_CLOSED;
    }
    return send_listing(page);
}

static const struct phase_hook phases[] = {
    {PHASE_DIRECTORY, .name = "autoindex", .run = list_directory,
     .when = SETTING(key, struct autoindex_settings, is_on)},
    {.run = NULL},
};
static const struct http_module hooks = {.phases = phases};

const struct module ngx_http_autoindex_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_autoindex_module",
    .kind = MODULE_HTTP,
    .table = {.key = &key,
              .rows = rows,
              .contexts = IN_HTTP_ALL,
              .size = sizeof(struct autoindex_settings)},
    .hooks = &hooks,
};
