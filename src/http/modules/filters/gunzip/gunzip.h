/* Shared by the files of gunzip. */
#ifndef HTTP_MODULES_FILTERS_GUNZIP_H
#define HTTP_MODULES_FILTERS_GUNZIP_H

#include "http/codings/codec.h"

/* Decompresses gzip with one or more members; level and window_bits are ignored. */
extern const struct codec_kind codec_inflate;

#endif
