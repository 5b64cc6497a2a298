/* Fuzz target: SSI pages. However a page is cut, the same text and directives come out; each is
 * read. */
#include <stdlib.h>

#include "http/modules/filters/ssi/scan.h"

#define VALUE_MAX 32

/* Text as it is, directives behind a byte that tells them. */
static void scan(struct str page, size_t step, struct buf *out)
{
    struct ssi_scanner scanner = {.value_max = VALUE_MAX};
    char message[SSI_ERROR_MAX];

    out->len = 0;
    while (page.len != 0) {
        struct str part = str_head(page, step);
        struct str token;
        enum ssi_token kind;

        page = str_skip(page, part.len);
        while ((kind = ssi_scan(&scanner, &part, &token)) != SSI_MORE) {
            if (kind == SSI_DIRECTIVE) {
                struct ssi_directive directive;
                struct writer error = {message, message + sizeof(message)};

                buf_append_char(out, scanner.is_cut ? '\2' : '\1');
                if (ssi_read_directive(token, VALUE_MAX, &directive, &error)) {
                    if (directive.count > SSI_PARAMETERS_MAX ||
                        directive.command.len > SSI_NAME_MAX) {
                        abort();
                    }
                } else if (error.at == message) {
                    abort();
                }
            }
            buf_append(out, token);
        }
        if (scanner.directive.len > 1024 + 6 * VALUE_MAX) {
            abort();
        }
    }
    buf_append(out, ssi_scan_end(&scanner));
    ssi_scanner_free(&scanner);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str page = {(const char *) data, size};
    struct buf whole = {0};
    struct buf cut = {0};

    if (size == 0) {
        return 0;
    }
    scan(page, size, &whole);
    scan(page, 1 + data[0] % 9, &cut);
    if (!str_equal(buf_str(&whole), buf_str(&cut))) {
        abort();
    }
    buf_free(&whole);
    buf_free(&cut);
    return 0;
}
