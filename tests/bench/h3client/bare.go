// Load without net/http: requests that were packed once, and responses of which only the heads of frames are read, so that the client
// is not what is measured. Both sides use QPACK's dynamic table (RFC 9204), as h2load does with HPACK's and browsers do with both.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"sync/atomic"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"
)

const (
	frameData, frameHeaders, frameSettings = 0, 1, 4
	tableCapacity                          = 4096 // bytes of each side's table
	staticOK                               = 0xd9 // ":status 200" of the static table
)

// bare is one connection.
type bare struct {
	client  *client
	conn    *quic.Conn
	request []byte
	decoder *quic.SendStream // what we tell of the server's table
	failed  chan error
}

// integer appends a prefixed integer (RFC 7541, 5.1).
func integer(to []byte, first byte, bits uint, value uint64) []byte {
	most := uint64(1)<<bits - 1
	if value < most {
		return append(to, first|byte(value))
	}
	to = append(to, first|byte(most))
	for value -= most; value >= 128; value >>= 7 {
		to = append(to, byte(value)|128)
	}
	return append(to, byte(value))
}

// readInteger reads the rest of a prefixed integer whose first byte was read.
func readInteger(from io.ByteReader, first byte, bits uint) (uint64, error) {
	value := uint64(first) & (1<<bits - 1)
	if value < 1<<bits-1 {
		return value, nil
	}
	for shift := uint(0); shift < 62; shift += 7 {
		next, err := from.ReadByte()
		if err != nil {
			return 0, err
		}
		value += uint64(next&127) << shift
		if next < 128 {
			return value, nil
		}
	}
	return 0, errors.New("a number is too long")
}

func frame(kind uint64, payload []byte) []byte {
	return append(quicvarint.Append(quicvarint.Append(nil, kind), uint64(len(payload))), payload...)
}

// insertions puts the fields of the request that the static table does not have into the server's table: `:authority`, `:path` and
// `user-agent`, each by the number of its name in the static table.
func insertions(target *url.URL) []byte {
	to := integer(nil, 0x20, 5, tableCapacity)
	for _, field := range []struct {
		name  uint64
		value string
	}{{0, target.Host}, {1, target.RequestURI()}, {95, "h3client"}} {
		to = integer(to, 0xc0, 6, field.name)
		to = append(integer(to, 0, 7, uint64(len(field.value))), field.value...)
	}
	return to
}

// section is the field section of a GET that refers to these entries.
func section() []byte {
	to := integer(nil, 0, 8, 3%(2*tableCapacity/32)+1) // Required Insert Count 3
	to = integer(to, 0, 7, 0)                          // Base 3
	to = integer(to, 0xc0, 6, 17)                      // :method GET
	to = integer(to, 0xc0, 6, 23)                      // :scheme https
	return append(to, 0x82, 0x81, 0x80)                // the entries, counted backwards from the base
}

func (c *client) bare(target *url.URL) (*bare, error) {
	t := c.tls.Clone()
	t.ServerName = target.Hostname()
	conn, err := c.dial(context.Background(), target.Host, t, c.transport().QUICConfig)
	if err != nil {
		return nil, err
	}
	b := &bare{client: c, conn: conn, request: frame(frameHeaders, section()), failed: make(chan error, 1)}
	settings := quicvarint.Append(quicvarint.Append(nil, 1), tableCapacity)
	for _, stream := range []struct {
		kind byte
		more []byte
	}{{0, frame(frameSettings, settings)}, {2, insertions(target)}, {3, nil}} {
		to, err := conn.OpenUniStream()
		if err != nil {
			return nil, err
		}
		if _, err = to.Write(append([]byte{stream.kind}, stream.more...)); err != nil {
			return nil, err
		}
		b.decoder = to
	}
	go b.listen()
	return b, nil
}

// listen reads the server's streams: of its encoder's each entry is confirmed, the others are dropped.
func (b *bare) listen() {
	for {
		from, err := b.conn.AcceptUniStream(context.Background())
		if err != nil {
			return
		}
		go func() {
			bytes := quicvarint.NewReader(from)
			kind, err := quicvarint.Read(bytes)
			if err == nil && kind == 2 {
				err = b.confirm(bytes)
			} else if err == nil {
				_, err = io.Copy(io.Discard, from)
			}
			if err != nil && !errors.Is(err, io.EOF) {
				select {
				case b.failed <- err:
				default:
				}
			}
		}()
	}
}

// confirm reads instructions (RFC 9204, 4.3), and says that entries have come.
func (b *bare) confirm(from quicvarint.Reader) error {
	for {
		first, err := from.ReadByte()
		if err != nil {
			return err
		}
		lengths := []uint{}
		bits := uint(5) // capacity, or a duplicate
		switch {
		case first&0x80 != 0:
			bits, lengths = 6, []uint{7}
		case first&0x40 != 0:
			bits, lengths = 5, []uint{0, 7} // the first number is the name's length
		}
		number, err := readInteger(from, first, bits)
		for _, length := range lengths {
			if err == nil && length != 0 {
				if first, err = from.ReadByte(); err == nil {
					number, err = readInteger(from, first, length)
				}
			}
			if err == nil {
				_, err = io.CopyN(io.Discard, from, int64(number))
			}
		}
		if err != nil {
			return err
		}
		if first&0xe0 == 0x20 && len(lengths) == 0 {
			continue // the capacity
		}
		if _, err = b.decoder.Write([]byte{1}); err != nil { // Insert Count Increment
			return err
		}
	}
}

// send writes the request on a stream of its own.
func (b *bare) send() (*quic.Stream, error) {
	stream, err := b.conn.OpenStreamSync(context.Background())
	if err != nil {
		return nil, err
	}
	if _, err = stream.Write(b.request); err != nil {
		return nil, err
	}
	stream.Close() // fails where the server has answered already, and wants no more
	return stream, nil
}

// take reads a response: its head has to say 200. It gives the bytes of the body, and an acknowledgement of the section if it needs one.
func take(stream *quic.Stream, room []byte) (body int, acknowledgement []byte, err error) {
	size := 0
	for err == nil {
		if size == len(room) {
			return 0, nil, errors.New("the response is too long for bare load")
		}
		var n int
		n, err = stream.Read(room[size:])
		size += n
	}
	if !errors.Is(err, io.EOF) {
		return 0, nil, err
	}
	for rest := room[:size]; len(rest) != 0; {
		kind, n, err := quicvarint.Parse(rest)
		if err != nil {
			return 0, nil, err
		}
		length, m, err := quicvarint.Parse(rest[n:])
		if err != nil || uint64(len(rest)-n-m) < length {
			return 0, nil, errors.New("a frame is cut")
		}
		payload := rest[n+m : n+m+int(length)]
		rest = rest[n+m+int(length):]
		switch {
		case kind == frameData:
			body += len(payload)
		case kind == frameHeaders && (len(payload) < 3 || payload[2] != staticOK):
			return 0, nil, fmt.Errorf("the response is not 200: % x", payload)
		case kind == frameHeaders && payload[0] != 0:
			acknowledgement = integer(nil, 0x80, 7, uint64(stream.StreamID()))
		}
	}
	return body, acknowledgement, nil
}

// run keeps so many requests under way until all are given.
func (b *bare) run(given *int64, streams int) error {
	c := b.client
	room := make([]byte, 1<<16)
	for {
		batch := make([]*quic.Stream, 0, streams)
		for len(batch) < streams && atomic.AddInt64(given, 1) <= int64(c.requests) {
			stream, err := b.send()
			if err != nil {
				return err
			}
			batch = append(batch, stream)
		}
		if len(batch) == 0 {
			return nil
		}
		acknowledgements := []byte{}
		for _, stream := range batch {
			body, acknowledgement, err := take(stream, room)
			if err != nil {
				return err
			}
			acknowledgements = append(acknowledgements, acknowledgement...)
			atomic.AddInt64(&c.out.Bytes, int64(body))
			atomic.AddInt64(&c.out.Requests, 1)
		}
		if len(acknowledgements) != 0 {
			if _, err := b.decoder.Write(acknowledgements); err != nil {
				return err
			}
		}
		select {
		case err := <-b.failed:
			return err
		default:
		}
	}
}

func (c *client) bareLoad() {
	var given int64
	target, err := url.Parse(c.url)
	if err != nil {
		c.fail(err)
		return
	}
	together(c.connections, func() {
		b, err := c.bare(target)
		if err == nil {
			err = b.run(&given, c.streams)
			b.conn.CloseWithError(0x100, "")
		}
		if err != nil {
			c.fail(err)
		}
	})
}
