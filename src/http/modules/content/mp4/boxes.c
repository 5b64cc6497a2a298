/* Reads and writes boxes. */
#include "http/modules/content/mp4/boxes.h"

bool box_head_read(struct str bytes, uint64_t left, struct box_head *out)
{
    if (bytes.len < BOX_HEAD) {
        return false;
    }
    *out = (struct box_head){.type = box_get32(bytes.data + 4),
                             .length = BOX_HEAD,
                             .size = box_get32(bytes.data)};
    if (out->size == 1) {
        if (bytes.len < BOX_HEAD_LARGE) {
            return false;
        }
        out->length = BOX_HEAD_LARGE;
        out->size = box_get64(bytes.data + BOX_HEAD);
    } else if (out->size == 0) {
        out->size = left;
    }
    return out->size >= out->length && out->size <= left;
}

bool box_next(struct str *rest, struct box *out)
{
    struct box_head head;

    *out = (struct box){0};
    if (!box_head_read(*rest, rest->len, &head)) {
        return false;
    }
    out->type = head.type;
    out->whole = str_head(*rest, head.size);
    out->data = str_skip(out->whole, head.length);
    *rest = str_skip(*rest, head.size);
    return true;
}

bool box_find(struct str boxes, uint32_t type, struct box *out)
{
    while (box_next(&boxes, out)) {
        if (out->type == type) {
            return true;
        }
    }
    *out = (struct box){0};
    return false;
}

bool box_table_read(const struct box *box, size_t skip, size_t item_size, struct box_table *out)
{
    *out = (struct box_table){0};
    if (box->data.len < skip + 4) {
        return false;
    }
    uint32_t count = box_get32(box->data.data + skip);
    if (count > (box->data.len - skip - 4) / item_size) {
        return false;
    }
    *out = (struct box_table){box->data.data + skip + 4, count};
    return true;
}

void box_set32(char *at, uint32_t number)
{
    for (unsigned i = 0; i < 4; i++) {
        at[i] = (char) (number >> (24 - 8 * i));
    }
}

void box_set64(char *at, uint64_t number)
{
    box_set32(at, (uint32_t) (number >> 32));
    box_set32(at + 4, (uint32_t) number);
}

void box_put32(struct buf *out, uint32_t number)
{
    box_set32(buf_reserve(out, 4), number);
    out->len += 4;
}

void box_put64(struct buf *out, uint64_t number)
{
    box_set64(buf_reserve(out, 8), number);
    out->len += 8;
}

size_t box_begin(struct buf *out, uint32_t type)
{
    size_t begin = out->len;

    box_put32(out, 0);
    box_put32(out, type);
    return begin;
}

void box_end(struct buf *out, size_t begin)
{
    box_set32(out->data + begin, (uint32_t) (out->len - begin));
}
