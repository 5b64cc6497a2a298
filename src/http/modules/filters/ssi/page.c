/* A page in progress: text and directives in order, stored blocks, output. */
#include "http/modules/filters/ssi/ssi.h"
#include "http/request/body_filter.h"

#define DEFAULT_ERROR "[an error occurred while processing the directive]"

/* ---- output ---- */

void ssi_send_piece(struct ssi_page *page, const struct body_piece *piece, bool is_last)
{
    bool is_sent = page->ordered == NULL
                       ? body_filter_next(&page->filter, page->request, piece, is_last)
                       : ordered_send(page->ordered, piece, is_last);

    page->is_dead = page->is_dead || !is_sent;
}

static void send_bytes(struct ssi_page *page, struct str bytes, bool is_flush, bool is_last)
{
    struct body_piece piece = {.bytes = bytes, .fd = -1, .is_volatile = true, .is_flush = is_flush};
    bool is_empty = bytes.len == 0 && !is_flush;

    if (!page->is_dead) {
        ssi_send_piece(page, is_empty ? NULL : &piece, is_last);
    }
}

void ssi_output_flush(struct ssi_page *page, bool is_flush, bool is_last)
{
    struct str bytes = {page->output, page->output_size};

    if (bytes.len != 0 || is_flush || is_last) {
        page->output_size = 0;
        send_bytes(page, bytes, is_flush, is_last);
    }
}

void ssi_output(struct ssi_page *page, struct str text)
{
    if (page->output_size + text.len > SSI_OUTPUT_SIZE) {
        ssi_output_flush(page, false, false);
    }
    if (text.len > SSI_OUTPUT_SIZE / 2) {
        ssi_output_flush(page, false, false);
        send_bytes(page, text, false, false);
        return;
    }
    if (text.len == 0) {
        return;
    }
    if (page->output == NULL) {
        page->output = arena_alloc(&page->request->arena, SSI_OUTPUT_SIZE);
    }
    memcpy(page->output + page->output_size, text.data, text.len);
    page->output_size += text.len;
}

void ssi_fail(struct ssi_page *page)
{
    if (!page->settings->is_silent) {
        ssi_output(page, page->error_message);
    }
}

/* ---- blocks ---- */

static bool add_to_block(struct ssi_page *page, struct str text)
{
    if (!ssi_count_block_bytes(page->request, text.len)) {
        return false;
    }
    buf_append(&page->open_block->text, text);
    return true;
}

/* Stores a directive inside a block as it was written. */
static void keep_directive(struct ssi_page *page, struct str text, struct str command)
{
    if (str_is(command, "endblock") && page->block_depth == 0) {
        ssi_keep_block(page->request, page->open_block);
        page->open_block = NULL;
        return;
    }
    page->block_depth += str_is(command, "block");
    page->block_depth -= str_is(command, "endblock");
    if (!add_to_block(page, STR("<!--#")) || !add_to_block(page, text) ||
        !add_to_block(page, STR("-->"))) {
        log_error(&page->request->log, 0, "the blocks of an SSI page are too long");
    }
}

/* ---- the page ---- */

bool ssi_is_skipping(const struct ssi_page *page)
{
    return page->if_count != 0 && !page->ifs[page->if_count - 1].is_taken;
}

static void ssi_page_take_text(struct ssi_page *page, struct str text)
{
    if (page->open_block != NULL) {
        if (!add_to_block(page, text)) {
            log_error(&page->request->log, 0, "the blocks of an SSI page are too long");
        }
    } else if (!ssi_is_skipping(page)) {
        ssi_output(page, text);
    }
}

static void take_directive(struct ssi_page *page, struct str text)
{
    char message[SSI_ERROR_MAX];
    struct writer error = {message, message + sizeof(message)};
    struct ssi_directive directive;
    bool is_read =
        ssi_read_directive(text, (size_t) page->settings->value_length, &directive, &error);

    if (page->open_block != NULL) {
        keep_directive(page, text, directive.command);
        return;
    }
    if (!ssi_count_work(page->request)) {
        page->is_dead = true;
        return;
    }
    const char *action = page->request->log.action;
    page->request->log.action = "sending response to client";
    if (is_read && !page->scanner.is_cut) {
        ssi_run(page, &directive);
    } else if (!ssi_is_skipping(page)) {
        if (is_read) {
            writer_printf(&error, "too long \"%.*s\" SSI command", STR_ARG(directive.command));
        }
        log_error(&page->request->log, 0, "%.*s", (int) (error.at - message), message);
        ssi_fail(page);
    }
    page->request->log.action = action;
}

void ssi_page_put(struct ssi_page *page, struct str input)
{
    struct str out;

    while (!page->is_dead) {
        switch (ssi_scan(&page->scanner, &input, &out)) {
        case SSI_TEXT:
            ssi_page_take_text(page, out);
            break;
        case SSI_DIRECTIVE:
            take_directive(page, out);
            break;
        case SSI_MORE:
            return;
        }
    }
}

void ssi_page_end(struct ssi_page *page)
{
    ssi_page_take_text(page, ssi_scan_end(&page->scanner));
}

void ssi_page_free(void *arg)
{
    struct ssi_page *page = arg;

    ssi_scanner_free(&page->scanner);
    if (page->open_block != NULL) {
        buf_free(&page->open_block->text);
        page->open_block = NULL;
    }
}

void ssi_page_begin(struct ssi_page *page, struct request *request,
                    const struct ssi_settings *settings)
{
    *page = (struct ssi_page){
        .request = request,
        .settings = settings,
        .scanner.value_max = (size_t) settings->value_length,
        .error_message = STR(DEFAULT_ERROR),
        .timefmt = STR(SSI_DEFAULT_TIMEFMT),
    };
    arena_on_free(&request->arena, ssi_page_free, page);
}
