/* The page for people: page.html, as it is. The assembler takes it in; it is named from the root, where the compiler runs. */
#include "http/modules/status/metrics/metrics.h"

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
