/* Charset conversion: each step takes a byte or a sequence and writes its equivalent. */
#include "http/modules/filters/charset/recode.h"

#include "base/parse.h"

/* ---- tables ---- */

struct recode_table *recode_table_new(struct arena *arena, enum recode_kind kind)
{
    struct recode_table *table = arena_new(arena, struct recode_table);

    table->kind = kind;
    table->keeps_ascii = true;
    for (unsigned i = 0; i < 256; i++) {
        unsigned char same = i < 128 ? (unsigned char) i : '?';
        if (kind == RECODE_BYTES) {
            table->bytes[i] = same;
        } else if (kind == RECODE_TO_UTF8) {
            table->chars[i] = (struct utf8_char){1, {(char) same}};
        }
    }
    if (kind == RECODE_FROM_UTF8) {
        table->pages = arena_new(arena, struct utf8_pages);
        vec_add(&table->pages->pages, arena, struct utf8_page);
    }
    return table;
}

void recode_set_byte(struct recode_table *table, unsigned char from, unsigned char to)
{
    table->bytes[from] = to;
    table->keeps_ascii &= from >= 128 || from == to;
}

static struct utf8_char utf8_encode(uint32_t code)
{
    if (code < 0x80) {
        return (struct utf8_char){1, {(char) code}};
    }
    if (code < 0x800) {
        return (struct utf8_char){2, {(char) (0xc0 | code >> 6), (char) (0x80 | (code & 0x3f))}};
    }
    if (code < 0x10000) {
        return (struct utf8_char){3,
                                  {(char) (0xe0 | code >> 12), (char) (0x80 | (code >> 6 & 0x3f)),
                                   (char) (0x80 | (code & 0x3f))}};
    }
    return (struct utf8_char){4,
                              {(char) (0xf0 | code >> 18), (char) (0x80 | (code >> 12 & 0x3f)),
                               (char) (0x80 | (code >> 6 & 0x3f)), (char) (0x80 | (code & 0x3f))}};
}

void recode_set_char(struct recode_table *to_utf8, struct recode_table *from_utf8,
                     struct arena *arena, unsigned char byte, uint32_t code_point)
{
    struct utf8_pages *pages = from_utf8->pages;
    uint16_t *number = &pages->numbers[code_point >> 8];

    to_utf8->chars[byte] = utf8_encode(code_point);
    to_utf8->keeps_ascii &= byte >= 128;
    if (*number == 0) {
        *number = (uint16_t) pages->pages.count;
        vec_add(&pages->pages, arena, struct utf8_page);
    }
    vec_at(&pages->pages, struct utf8_page, *number)->bytes[code_point & 0xff] = byte;
}

/* ---- UTF-8 ---- */

int utf8_decode(const unsigned char *at, size_t len, uint32_t *code_point)
{
    unsigned char lead = at[0];
    unsigned char least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80; /* not overlong */
    unsigned char most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;  /* no surrogates */
    int size = lead < 0x80 ? 1 : lead < 0xc2 ? -1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;

    if (size == 1) {
        *code_point = lead;
        return 1;
    }
    if (size == -1 || lead > 0xf4) {
        return -1;
    }
    uint32_t code = lead & (0x7fu >> size);
    for (int i = 1; i < size; i++) {
        if ((size_t) i == len) {
            return 0;
        }
        if (at[i] < least || at[i] > most) {
            return -i;
        }
        code = code << 6 | (at[i] & 0x3f);
        least = 0x80;
        most = 0xbf;
    }
    *code_point = code;
    return size;
}

/* Reads a sequence the way nginx does: an overlong one, or one beyond the last code point, is
 * malformed as a whole, and any byte beyond ASCII continues a sequence. An ASCII byte never does,
 * so that no markup is swallowed. Returns the same as utf8_decode(). */
static int read_sequence(const unsigned char *at, size_t len, uint32_t *code_point)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char lead = at[0];
    unsigned size = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;

    if (lead < 0xc2) {
        return -1;
    }
    uint32_t code =
        lead & (size == 4 ? 0x07 : 0x7fu >> size); /* 0xf8 and up count as leads of four */
    for (unsigned i = 1; i < size; i++) {
        if (i == len) {
            return 0;
        }
        if (at[i] < 0x80) {
            return -(int) i;
        }
        code = code << 6 | (at[i] & 0x3f);
    }
    *code_point = code;
    return code < least[size] || code > 0x10ffff ? -(int) size : (int) size;
}

static unsigned char byte_of(const struct utf8_pages *pages, uint32_t code)
{
    return vec_at(&pages->pages, struct utf8_page, pages->numbers[code >> 8])->bytes[code & 0xff];
}

/* Writes a code point in the other charset, or as a character reference (RFC 1866, 3.2.1), which
 * works in any charset. */
static void put_code_point(const struct recode_table *table, uint32_t code, struct writer *out)
{
    unsigned char byte = byte_of(table->pages, code);

    if (byte != 0) {
        *out->at++ = (char) byte;
        return;
    }
    out->at = STR_PUT(out->at, "&#");
    out->at = format_uint(out->at, code);
    *out->at++ = ';';
}

/* Continues the held sequence by one byte. */
static void step_held(struct recoder *recoder, struct str *in, struct writer *out)
{
    uint32_t code;

    recoder->held[recoder->held_len] = (unsigned char) *in->data;
    int size = read_sequence(recoder->held, recoder->held_len + 1, &code);
    if (size == 0) {
        *in = str_skip(*in, 1);
        recoder->held_len++;
        return;
    }
    if (-size != (int) recoder->held_len) {
        *in =
            str_skip(*in, 1); /* else it is a character of its own, after the malformed sequence */
    }
    recoder->held_len = 0;
    if (size < 0) {
        *out->at++ = '?';
        return;
    }
    put_code_point(recoder->table, code, out);
}

static void step_from_utf8(struct recoder *recoder, struct str *in, struct writer *out)
{
    uint32_t code;

    if (recoder->held_len != 0) {
        step_held(recoder, in, out);
        return;
    }
    if ((unsigned char) *in->data < 0x80) {
        *out->at++ = *in->data;
        *in = str_skip(*in, 1);
        return;
    }
    int size = read_sequence((const unsigned char *) in->data, in->len, &code);
    if (size == 0) {
        recoder->held_len = (unsigned) in->len;
        memcpy(recoder->held, in->data, in->len);
        *in = str_skip(*in, in->len);
        return;
    }
    if (size < 0) {
        *out->at++ = '?';
    } else {
        put_code_point(recoder->table, code, out);
    }
    *in = str_skip(*in, (size_t) (size < 0 ? -size : size));
}

/* ---- pieces ---- */

static void recode_bytes(const struct recode_table *table, struct str *in, struct writer *out)
{
    size_t space = (size_t) (out->end - out->at);
    struct str part = str_head(*in, space);

    for (size_t i = 0; i < part.len; i++) {
        out->at[i] = (char) table->bytes[(unsigned char) part.data[i]];
    }
    out->at += part.len;
    *in = str_skip(*in, part.len);
}

static void step_to_utf8(const struct recode_table *table, struct str *in, struct writer *out)
{
    const struct utf8_char *one = &table->chars[(unsigned char) *in->data];

    memcpy(out->at, one->text, sizeof(one->text)); /* at least RECODE_STEP bytes are free */
    out->at += one->len;
    *in = str_skip(*in, 1);
}

bool recode(struct recoder *recoder, struct str *in, bool is_last, struct writer *out)
{
    switch (recoder->table->kind) {
    case RECODE_BYTES:
        recode_bytes(recoder->table, in, out);
        break;
    case RECODE_TO_UTF8:
        while (in->len != 0 && out->end - out->at >= RECODE_STEP) {
            step_to_utf8(recoder->table, in, out);
        }
        break;
    case RECODE_FROM_UTF8:
        while (in->len != 0 && out->end - out->at >= RECODE_STEP) {
            step_from_utf8(recoder, in, out);
        }
        if (in->len == 0 && is_last) {
            recoder->held_len =
                0; /* an incomplete sequence at the end gives nothing, as in nginx */
        }
        break;
    }
    return in->len == 0;
}

static bool is_ascii(struct str text)
{
    uint64_t seen = 0;

    while (text.len >= sizeof(seen)) {
        uint64_t eight;
        memcpy(&eight, text.data, sizeof(eight));
        seen |= eight;
        text = str_skip(text, sizeof(seen));
    }
    for (size_t i = 0; i < text.len; i++) {
        seen |= (unsigned char) text.data[i];
    }
    return (seen & 0x8080808080808080u) == 0;
}

bool recode_is_needless(const struct recoder *recoder, struct str piece)
{
    return recoder->held_len == 0 && recoder->table->keeps_ascii && is_ascii(piece);
}
