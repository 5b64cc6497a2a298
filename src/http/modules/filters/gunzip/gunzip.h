/* What the files of gunzip share. */
#ifndef HTTP_MODULES_FILTERS_GUNZIP_H
#define HTTP_MODULES_FILTERS_GUNZIP_H

#include "http/codings/codec.h"

/* Takes gzip, of one member or of several, and gives clear text; level and window_bits do not
 * count. */
extern const struct codec_kind codec_inflate;

#endif
