"""Small databases of addresses, written by hand: those of the legacy GeoIP format, and MaxMind's."""

import ipaddress
import struct


class Trie:
    """Bits of addresses to leaves; what is in no network has the leaf `nothing`."""

    def __init__(self, width, networks, nothing):
        self.nodes = [[nothing, nothing]]
        for network, leaf in networks:
            network = ipaddress.ip_network(network)
            first, bits = int(network.network_address), network.prefixlen
            if width == 128 and network.version == 4:
                raise ValueError("say it as an IPv6 network")
            at = 0
            for depth in range(bits):
                branch = first >> (width - 1 - depth) & 1
                if depth == bits - 1:
                    self.nodes[at][branch] = leaf
                elif isinstance(self.nodes[at][branch], int):
                    at = self.nodes[at][branch]
                else:
                    self.nodes.append([self.nodes[at][branch]] * 2)
                    self.nodes[at][branch] = len(self.nodes) - 1
                    at = len(self.nodes) - 1


def _legacy(kind, width, networks, encode, size=3, leaves=None):
    """networks: (network, thing); encode gives the record of a thing, or with fixed leaves its number."""
    trie = Trie(width, [(network, ("leaf", thing)) for network, thing in networks], ("none",))
    first = leaves or len(trie.nodes)
    data, places = b"\0", {}
    for _, thing in networks:
        if leaves is None and thing not in places:
            places[thing] = len(data)
            data += encode(thing)

    def number(branch):
        if isinstance(branch, int):
            return branch
        if branch[0] == "none":
            return first
        return first + (encode(branch[1]) if leaves else places[branch[1]])

    nodes = b"".join(number(branch).to_bytes(size, "little") for node in trie.nodes for branch in node)
    end = b"\xff\xff\xff" + bytes([kind])
    return nodes + (b"" if leaves else data + b"\0") + end + (b"" if leaves else first.to_bytes(3, "little"))


def legacy_country(networks, width=32):
    """(network, number of a country): 225 US, 185 RU, 56 DE."""
    return _legacy(1 if width == 32 else 12, width, networks, int, leaves=0xffff00)


def legacy_city(networks, kind=2, width=32):
    """(network, (country, region, city, postal code, latitude, longitude, codes or None))"""
    def record(place):
        country, region, city, postal, latitude, longitude, codes = place
        return (bytes([country]) + b"".join(text.encode("latin-1") + b"\0" for text in (region, city, postal))
                + b"".join(int(round((degrees + 180) * 10000)).to_bytes(3, "little") for degrees in (latitude, longitude))
                + (b"" if codes is None else codes.to_bytes(3, "little")))
    return _legacy(kind, width, networks, record)


def legacy_text(networks, kind=5, width=32):
    """(network, text)"""
    return _legacy(kind, width, networks, lambda text: text.encode("latin-1") + b"\0", size=3 if kind in (9, 21) else 4)


def legacy_region(networks, kind=3):
    """(network, number)"""
    return _legacy(kind, 32, networks, int, leaves=16000000 if kind == 3 else 16700000)


# MaxMind's format (https://maxmind.github.io/MaxMind-DB/): types of data by Python's.


class Typed:
    """A value of a type that Python's does not tell: "double", "float", "uint16", "uint32", "int32", "uint64", "uint128", "bytes"."""

    def __init__(self, kind, value):
        self.kind, self.value = kind, value


_kinds = {"string": 2, "double": 3, "bytes": 4, "uint16": 5, "uint32": 6, "map": 7, "int32": 8, "uint64": 9, "uint128": 10,
          "array": 11, "boolean": 14, "float": 15}


def _control(kind, size):
    number = _kinds[kind]
    head, more = (bytes([number << 5]), b"") if number < 8 else (b"\0", bytes([number - 7]))
    if size < 29:
        low, tail = size, b""
    elif size < 29 + 256:
        low, tail = 29, bytes([size - 29])
    elif size < 285 + 65536:
        low, tail = 30, (size - 285).to_bytes(2, "big")
    else:
        low, tail = 31, (size - 65821).to_bytes(3, "big")
    return bytes([head[0] | low]) + more + tail


def mmdb_data(value):
    """A value as the data section has it."""
    if isinstance(value, bool):
        return _control("boolean", int(value))
    if isinstance(value, str):
        text = value.encode()
        return _control("string", len(text)) + text
    if isinstance(value, dict):
        return _control("map", len(value)) + b"".join(mmdb_data(key) + mmdb_data(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return _control("array", len(value)) + b"".join(mmdb_data(item) for item in value)
    if isinstance(value, int):
        value = Typed("uint32", value)
    if isinstance(value, float):
        value = Typed("double", value)
    if value.kind in ("double", "float"):
        text = struct.pack(">d" if value.kind == "double" else ">f", value.value)
    elif value.kind == "bytes":
        text = value.value
    elif value.kind == "int32":
        text = (value.value & 0xffffffff).to_bytes(4, "big").lstrip(b"\0")
    else:
        text = value.value.to_bytes(16, "big").lstrip(b"\0")
    return _control(value.kind, len(text)) + text


def mmdb(networks, record_size=28, version=6, epoch=1700000000, **metadata):
    """networks: (network, value). A database of IPv6 has those of IPv4 at ::/96."""
    width = 128 if version == 6 else 32
    placed, data, places = [], b"", {}
    for network, value in networks:
        network = ipaddress.ip_network(network)
        if version == 6 and network.version == 4:
            network = "%s/%d" % (ipaddress.IPv6Address(int(network.network_address)), network.prefixlen + 96)
        text = mmdb_data(value)
        if text not in places:
            places[text] = len(data)
            data += text
        placed.append((str(network), ("leaf", places[text])))
    trie = Trie(width, placed, ("none",))
    count = len(trie.nodes)

    def number(branch):
        return branch if isinstance(branch, int) else count if branch[0] == "none" else count + 16 + branch[1]

    nodes = b""
    for left, right in (map(number, node) for node in trie.nodes):
        if record_size == 28:
            nodes += (left & 0xffffff).to_bytes(3, "big") + bytes([left >> 24 << 4 | right >> 24]) + (right & 0xffffff).to_bytes(3, "big")
        else:
            nodes += b"".join(branch.to_bytes(record_size // 8, "big") for branch in (left, right))
    told = {"node_count": count, "record_size": Typed("uint16", record_size), "ip_version": Typed("uint16", version),
            "database_type": "Test", "languages": ["en", "de"], "binary_format_major_version": Typed("uint16", 2),
            "binary_format_minor_version": Typed("uint16", 0), "build_epoch": Typed("uint64", epoch),
            "description": {"en": "a test"}}
    told.update(metadata)
    return nodes + b"\0" * 16 + data + b"\xab\xcd\xefMaxMind.com" + mmdb_data(told)
