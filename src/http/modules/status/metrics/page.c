/* The dashboard page: page.html, included unchanged by the assembler. Its path is relative to the
 * root of the repository, where the compiler runs. */
#include "http/modules/status/metrics/metrics.h"

#include <stdio.h>

#include "base/checksum.h"
#include "base/text.h"

__asm__(".section .rodata\n"
        "metrics_page_start:\n"
        ".incbin \"src/http/modules/status/metrics/page.html\"\n"
        "metrics_page_end:\n"
        ".byte 0\n"
        ".previous\n");

extern const char page_start[] __asm__("metrics_page_start");
extern const char page_end[] __asm__("metrics_page_end");

struct str metrics_page(void)
{
    return str_from(page_start, page_end);
}

/* The hash of the contents of an element that exists once in the page, in the format of CSP (CSP3,
 * 2.3.1). */
static void put_hash(char out[64], const char *start, const char *end)
{
    struct arena arena;
    unsigned char hash[32];
    const char *from = str_find(metrics_page(), str_of(start)) + strlen(start);
    const char *to = str_find(str_from(from, page_end), str_of(end));

    arena_init(&arena);
    sha256_of(str_from(from, to), hash);
    struct str text = base64_encode(&arena, (struct str){(char *) hash, sizeof(hash)}, false);
    snprintf(out, 64, "'sha256-%.*s'", STR_ARG(text));
    arena_free(&arena);
}

struct str metrics_page_policy(void)
{
    static char policy[512];

    if (policy[0] == 0) {
        char script[64], style[64];

        put_hash(script, "<script>", "</script>");
        put_hash(style, "<style>", "</style>");
        snprintf(policy, sizeof(policy),
                 "default-src 'none'; script-src %s; style-src %s; connect-src 'self'; "
                 "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
                 "require-trusted-types-for 'script'",
                 script, style);
    }
    return str_of(policy);
}
