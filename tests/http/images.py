"""Images for tests: 120 pixels wide, 90 high, with a colour in each quarter (red, green; blue, yellow); and what heads of images say."""

import base64
import struct
import zlib

JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQEAYABgAAD//gA7Q1JFQVRPUjogZ2QtanBlZyB2MS4wICh1c2luZyBJSkcgSlBFRyB2NjIpLCBxdWFsaXR5ID0gODAK/9"
    "sAQwAGBAUGBQQGBgUGBwcGCAoQCgoJCQoUDg8MEBcUGBgXFBYWGh0lHxobIxwWFiAsICMmJykqKRkfLTAtKDAlKCko/9sAQwEHBwcKCAoTCgoT"
    "KBoWGigoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgo/8AAEQgAWgB4AwEiAAIRAQMRAf/EAB8AAAEFAQ"
    "EBAQEBAAAAAAAAAAABAgMEBQYHCAkKC//EALUQAAIBAwMCBAMFBQQEAAABfQECAwAEEQUSITFBBhNRYQcicRQygZGhCCNCscEVUtHwJDNicoIJ"
    "ChYXGBkaJSYnKCkqNDU2Nzg5OkNERUZHSElKU1RVVldYWVpjZGVmZ2hpanN0dXZ3eHl6g4SFhoeIiYqSk5SVlpeYmZqio6Slpqeoqaqys7S1tr"
    "e4ubrCw8TFxsfIycrS09TV1tfY2drh4uPk5ebn6Onq8fLz9PX29/j5+v/EAB8BAAMBAQEBAQEBAQEAAAAAAAABAgMEBQYHCAkKC//EALURAAIB"
    "AgQEAwQHBQQEAAECdwABAgMRBAUhMQYSQVEHYXETIjKBCBRCkaGxwQkjM1LwFWJy0QoWJDThJfEXGBkaJicoKSo1Njc4OTpDREVGR0hJSlNUVV"
    "ZXWFlaY2RlZmdoaWpzdHV2d3h5eoKDhIWGh4iJipKTlJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uLj5OXm5+jp"
    "6vLz9PX29/j5+v/aAAwDAQACEQMRAD8A86ooor44/pEKKKKACiiigArsfh5/zEP+2f8A7NXHV2Pw8/5iH/bP/wBmrjx/+7y+X5o/PPFb/klMX/"
    "3D/wDTkDsaKKK+cP43CiiigAooooAKKKKAPHaKKK+vP9CwooooAKKKKACux+Hn/MQ/7Z/+zVx1dj8PP+Yh/wBs/wD2auPH/wC7y+X5o/PPFb/k"
    "lMX/ANw//TkDsaKKK+cP43CiiigAooooAKKKKAPHaKx/7ftf+ec//fI/xo/t+1/55z/98j/Gv1P/AFPzv/oGkf3X/rVlH/QRE2KKx/7ftf8Ann"
    "P/AN8j/Gj+37X/AJ5z/wDfI/xo/wBT87/6BpB/rVlH/QRE2KKx/wC37X/nnP8A98j/ABo/t+1/55z/APfI/wAaP9T87/6BpB/rVlH/AEERNiux"
    "+Hn/ADEP+2f/ALNXm39v2v8Azzn/AO+R/jXqHwStX8S/219gKx/Z/J3+dxnd5mMYz/dNeRn3D2ZZdgKmKxdFwpxtdvZXkkvxaR8X4h5tg824dx"
    "OCwNRVKsuS0Vu7Ti39yTZ1VFdN/wAIZqP/AD2tP++m/wDiaP8AhDNR/wCe1p/303/xNfnX1yh/Mj+Y/wDVvNP+fEjmaK6b/hDNR/57Wn/fTf8A"
    "xNH/AAhmo/8APa0/76b/AOJo+uUP5kH+reaf8+JHM0V03/CGaj/z2tP++m/+Jo/4QzUf+e1p/wB9N/8AE0fXKH8yD/VvNP8AnxI5mium/wCEM1"
    "H/AJ7Wn/fTf/E0UfXKH8yD/VvNP+fEj44ooor++j9HCiiigAooooAK+g/2TP8Amav+3X/2tXz5X0H+yZ/zNX/br/7Wr828Xf8AkkMZ/wBw/wD0"
    "7A7MB/vEfn+TPoSiiiv4lPpAooooAKKKKACiiigD8+KKKK/0jPjwooooAKKKKACvoP8AZM/5mr/t1/8Aa1fPlfQf7Jn/ADNX/br/AO1q/NvF3/"
    "kkMZ/3D/8ATsDswH+8R+f5M+hKKKK/iU+kCiiigAooooAKKKKAPz4ooor/AEjPjwooooAKKKKACvoP9kz/AJmr/t1/9rV8+V9B/smf8zV/26/+"
    "1q/NvF3/AJJDGf8AcP8A9OwOzAf7xH5/kz6Eooor+JT6QKKKKACiiigAooooA//Z")
GIF = base64.b64decode(
    "R0lGODdheABaAJEAAAQC/AT+BPwCBPz+BCwAAAAAeABaAAAC/pSPqcvtGaKctNqLM328e6eF4ph95smR6hqi7nuw8izB9knn6813+i/qCRvAIm"
    "aIhBiXk6RTwIwGnkkpk4q0LrFDrZEr9BbBPTGQzDP/0De1jm1z5+AwOY3+ss/wLr2Mj+LHAogjqEJoYniI6KFIwtjoGASZItlC+WB5iUmkWcLZ"
    "6XkBGipaQcpgOoqqoGrB2uq6AYsgO0trYNuEm6sbwdvrCwzlOwVcbMyLPLx8XMz87CwsrQtgfY2drb3N3e2dPRAuPk5ebn6Onk7+zd7u7q0eLz"
    "+f/m5/z06vvx+P7/9/jZ/AgeIAGrxHMOG+gwzbKXwor6HEbhAropuIEZzFnY3jMnoEwDHkgI8ZRXIkidHkRpQTVVpkKdFlRZgNZUKkydDmQ5wH"
    "dSrkadBnQqAAhRIk+s/oQKT+lApkis8pP6gIpeqjas/qVazutNLj2tVrRLD5xPYj+83sWbQU1dZj29btObhx5Zajy83uXLza9Jrj29fvOsDYBA"
    "8mbM1wR8SJFYdj3NgxZJCOR0KubJkx5smbL1fm/NmzZNGKCwAAOw==")
TRANSPARENT_GIF = base64.b64decode(
    "R0lGODlheABaAJEAAAQC/AT+BPwCBPz+BCH5BAEAAAIALAAAAAB4AFoAAAL+lI+py+0Zopy02oszfbx7p4XimH3myZHqGqLue7DyLMH2SefrzX"
    "f6L+oJG8AiZoiEGJeTpFPAjAaeSSmTirQusUOtkSv0FsE9MZDMM//QN7WObXPn4DA5jf6yz/AuvYyP4scCiCOoQmhieIjooUjC2OgYBJki2UL5"
    "YHmJSaRZwtnpeQEaKlpBymA6iqqgasHa6roBiyA7S2tg24SbqxvB2+sLDOU7BVxszIs8vHxczPzsLCytC2B9jZ2tvc3d7Z09EC4+Tl5ufo6eTv"
    "7N3u7urR4vP5/+bn/PTq+/H4/v/3+Nn8CB4gAavEcw4b6DDNspfCivocRuECuim4gRnMWdjeMyegTAMeSAjxlFciSJ0eRGlBNVWmQp0WVFmA1l"
    "QqTJ0OZDnAd1KuRp0GdCoACFEiT6z+hApP6UCmSKzyk/qAil6qNqz+pVrO600uPa1WtEsPnE9iP7zexZtBTV1mPb1u05uHHllqPLze5cvNr0mu"
    "Pb1+86wNgEDyZszXBHxIkVh2Pc2DFkkI5HQq5smTHmyZsvV+b82bNk0YoLAAA7")
WEBP = base64.b64decode(
    "UklGRgYBAABXRUJQVlA4IPoAAAAwCwCdASp4AFoAPm00lUckIyIhKUgAgA2JYwhwAZbcF/wD8QNON+EEqAfgBigH6ge//uAG8gfsABKouLQP4h"
    "2U2AWGq21jGjfZCYoxPesCJdhLsuYzBCWTiSZsKYdVL29LAAD+Ly7DyFG97dgsr8gP/ID/+PfYnbyeR6rh7K006vRdIJ/9kywNv8P3/2TLA1ga"
    "uC8qg1zZErUuNXnuv9mZwKJt8FB18FfNLwUEvw7YsLH19ORlPtM0/Gb+8d3PnrcKV/9e/2kPc0uxdg7fi5/7+B16NjjyV4QdxbS3OrxMKf1/Pz"
    "p7BeW4l5M+yBHsmhQyCDCANLcAAAAA")

COLOURS = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0)]


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width=120, height=90, alpha=None, palette=False, transparent=False):
    """With RGB, RGBA where alpha (0 to 255) is given, or a palette, whose first colour may be transparent."""
    kind = 3 if palette else 6 if alpha is not None else 2
    rows = []
    for y in range(height):
        row = bytearray(b"\0")
        for x in range(width):
            quarter = (x >= width // 2) + 2 * (y >= height // 2)
            row += bytes([quarter]) if palette else bytes(COLOURS[quarter]) + (b"" if alpha is None else bytes([alpha]))
        rows.append(bytes(row))
    out = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))
    if palette:
        out += chunk(b"PLTE", b"".join(bytes(colour) for colour in COLOURS))
        out += chunk(b"tRNS", b"\0") if transparent else b""
    return out + chunk(b"IDAT", zlib.compress(b"".join(rows))) + chunk(b"IEND", b"")


def size(data):
    """(kind, width, height) of an image."""
    if data[:2] == b"\xff\xd8":
        at = 2
        while data[at + 1] not in (0xc0, 0xc1, 0xc2):
            at += 2 + struct.unpack(">H", data[at + 2:at + 4])[0]
        height, width = struct.unpack(">HH", data[at + 5:at + 9])
        return "jpeg", width, height
    if data[:3] == b"GIF":
        return ("gif",) + struct.unpack("<HH", data[6:10])
    if data[:4] == b"\x89PNG":
        return ("png",) + struct.unpack(">II", data[16:24])
    if data[12:16] == b"VP8 ":
        return "webp", struct.unpack("<H", data[26:28])[0] & 0x3fff, struct.unpack("<H", data[28:30])[0] & 0x3fff
    if data[12:16] == b"VP8X":
        return "webp", int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    raise AssertionError("no image: %r" % data[:30])


def pixels(data):
    """The pixels of a PNG with 8 bits a channel, or a palette, as rows of tuples (r, g, b, a)."""
    at, idat, plte, trns = 8, b"", b"", b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        part = data[at + 8:at + 8 + length]
        at += 12 + length
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlace = struct.unpack(">IIBBBBB", part)
        idat += part if kind == b"IDAT" else b""
        plte += part if kind == b"PLTE" else b""
        trns += part if kind == b"tRNS" else b""
    assert depth in (1, 2, 4, 8) and interlace == 0
    channels = {2: 3, 3: 1, 6: 4}[colour]
    raw, rows, before = zlib.decompress(idat), [], None
    stride = (width * channels * depth + 7) // 8
    step = max(1, channels * depth // 8)
    for y in range(height):
        line = bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        way = raw[y * (stride + 1)]
        before = before or bytearray(stride)
        for i in range(stride):
            a, b, c = line[i - step] if i >= step else 0, before[i], before[i - step] if i >= step else 0
            p = a + b - c
            paeth = a if abs(p - a) <= abs(p - b) and abs(p - a) <= abs(p - c) else b if abs(p - b) <= abs(p - c) else c
            line[i] = (line[i] + [0, a, b, (a + b) // 2, paeth][way]) & 255
        before = line
        if colour == 3:
            indexes = [line[x * depth // 8] >> (8 - depth - x * depth % 8) & (1 << depth) - 1 for x in range(width)]
            rows.append([tuple(plte[3 * i:3 * i + 3]) + (trns[i] if i < len(trns) else 255,) for i in indexes])
        else:
            rows.append([tuple(line[x * channels:(x + 1) * channels]) + ((255,) if channels == 3 else ()) for x in range(width)])
    return rows
