// A client of HTTP/3 on quic-go, which is not ours: load for benchmarks, and interoperability tests. Prints one line of JSON.
//
//	h3client load -n REQUESTS -c CONNECTIONS -m STREAMS URL     requests, by turns on all streams
//	h3client bare -n REQUESTS -c CONNECTIONS -m STREAMS URL     the same for short responses, by bare.go
//	h3client handshakes -n CONNECTIONS -c AT_ONCE URL           one request on each connection
//	h3client hold -c CONNECTIONS URL                            one request on each connection, all at one time
//	h3client idle -c CONNECTIONS URL                            the same, and they stay idle until the end of the input
//	h3client transfers -c CONNECTIONS URL                       the same; a line says when all responses have begun
//
// And quic-go's server, to compare with: files of a directory at an address.
//
//	h3client serve DIRECTORY ADDRESS CERTIFICATE KEY
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

type settings struct {
	requests, connections, streams int
	version2, resume               bool
	url                            string
}

// What is printed. Dialled is the number of connections: more than were asked for if some were lost.
type result struct {
	Requests, Failed, Bytes, Dialled, Resumed int64
	Seconds                                   float64
	Versions                                  map[string]int64
	Error                                     string `json:",omitempty"`
}

type client struct {
	settings
	tls     *tls.Config
	out     result
	lock    sync.Mutex
	started time.Time
}

func newClient(s settings) *client {
	c := &client{settings: s, started: time.Now()}
	c.out.Versions = map[string]int64{}
	c.tls = &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h3"}}
	if s.resume {
		c.tls.ClientSessionCache = tls.NewLRUClientSessionCache(16)
	}
	return c
}

func (c *client) fail(err error) {
	c.lock.Lock()
	c.out.Failed++
	c.out.Error = err.Error()
	c.lock.Unlock()
}

func (c *client) dial(ctx context.Context, addr string, t *tls.Config, q *quic.Config) (*quic.Conn, error) {
	conn, err := quic.DialAddr(ctx, addr, t, q)
	if err == nil {
		state := conn.ConnectionState()
		c.lock.Lock()
		c.out.Dialled++
		if state.TLS.DidResume {
			c.out.Resumed++
		}
		c.out.Versions[state.Version.String()]++
		c.lock.Unlock()
	}
	return conn, err
}

func (c *client) transport() *http3.Transport {
	versions := []quic.Version{quic.Version1}
	if c.version2 {
		versions = []quic.Version{quic.Version2}
	}
	return &http3.Transport{
		TLSClientConfig: c.tls,
		QUICConfig: &quic.Config{Versions: versions, HandshakeIdleTimeout: 20 * time.Second, MaxIdleTimeout: 60 * time.Second,
			InitialStreamReceiveWindow: 4 << 20, InitialConnectionReceiveWindow: 8 << 20},
		Dial:               c.dial,
		DisableCompression: true,
	}
}

// The response, once its head has come; nil: it failed.
func (c *client) begin(t *http3.Transport) *http.Response {
	request, err := http.NewRequest("GET", c.url, nil)
	if err != nil {
		c.fail(err)
		return nil
	}
	response, err := t.RoundTrip(request)
	if err != nil {
		c.fail(err)
		return nil
	}
	return response
}

func (c *client) finish(response *http.Response) {
	n, err := io.Copy(io.Discard, response.Body)
	response.Body.Close()
	atomic.AddInt64(&c.out.Bytes, n)
	if err == nil && response.StatusCode != 200 {
		err = fmt.Errorf("status %d", response.StatusCode)
	}
	if err != nil {
		c.fail(err)
		return
	}
	atomic.AddInt64(&c.out.Requests, 1)
}

func (c *client) get(t *http3.Transport) {
	if response := c.begin(t); response != nil {
		c.finish(response)
	}
}

// Calls run in `count` goroutines, and waits for all.
func together(count int, run func()) {
	var group sync.WaitGroup
	for i := 0; i < count; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			run()
		}()
	}
	group.Wait()
}

func (c *client) load() {
	var given int64
	together(c.connections, func() {
		t := c.transport()
		together(c.streams, func() {
			for atomic.AddInt64(&given, 1) <= int64(c.requests) {
				c.get(t)
			}
		})
		t.Close()
	})
}

func (c *client) handshakes() {
	var given int64
	together(c.connections, func() {
		for atomic.AddInt64(&given, 1) <= int64(c.requests) {
			t := c.transport()
			c.get(t)
			t.Close()
		}
	})
}

func (c *client) hold() {
	together(c.connections, func() {
		t := c.transport()
		c.get(t)
		t.Close()
	})
}

// Calls run for each connection, sixteen at a time: more handshakes at once are more than one client can do.
func (c *client) each(run func(i int64)) {
	var next int64 = -1
	together(min(16, c.connections), func() {
		for i := atomic.AddInt64(&next, 1); i < int64(c.connections); i = atomic.AddInt64(&next, 1) {
			run(i)
		}
	})
}

func (c *client) transfers() {
	var group sync.WaitGroup
	c.each(func(int64) {
		t := c.transport()
		response := c.begin(t)
		if response == nil {
			return
		}
		group.Add(1)
		go func() {
			defer group.Done()
			c.finish(response)
			t.Close()
		}()
	})
	fmt.Println("begun")
	group.Wait()
}

func (c *client) idle() {
	transports := make([]*http3.Transport, c.connections)
	c.each(func(i int64) {
		transports[i] = c.transport()
		c.get(transports[i])
	})
	c.report()
	io.Copy(io.Discard, os.Stdin)
	for _, t := range transports {
		t.Close()
	}
	os.Exit(0)
}

func (c *client) report() {
	c.out.Seconds = time.Since(c.started).Seconds()
	json.NewEncoder(os.Stdout).Encode(&c.out)
}

func serve(directory, address, certificate, key string) error {
	server := http3.Server{Addr: address, Handler: http.FileServer(http.Dir(directory))}
	return server.ListenAndServeTLS(certificate, key)
}

func main() {
	var s settings
	flags := flag.NewFlagSet("h3client", flag.ExitOnError)
	flags.IntVar(&s.requests, "n", 1, "requests")
	flags.IntVar(&s.connections, "c", 1, "connections")
	flags.IntVar(&s.streams, "m", 1, "streams of a connection at one time")
	flags.BoolVar(&s.version2, "2", false, "QUIC version 2")
	flags.BoolVar(&s.resume, "resume", false, "resume TLS sessions")
	modes := map[string]func(*client){"load": (*client).load, "bare": (*client).bareLoad, "handshakes": (*client).handshakes, "hold": (*client).hold,
		"idle": (*client).idle, "transfers": (*client).transfers}
	if len(os.Args) == 6 && os.Args[1] == "serve" {
		fmt.Fprintln(os.Stderr, serve(os.Args[2], os.Args[3], os.Args[4], os.Args[5]))
		os.Exit(1)
	}
	if len(os.Args) < 3 || modes[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: h3client load|bare|handshakes|hold|idle|transfers [-n N] [-c N] [-m N] [-2] [-resume] URL")
		os.Exit(2)
	}
	flags.Parse(os.Args[2:])
	s.url = flags.Arg(0)
	c := newClient(s)
	modes[os.Args[1]](c)
	c.report()
}
