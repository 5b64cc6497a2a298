// Asks a live server's API through nginx Plus' client library for Go, and ends with a line that says what does not hold.
package main

import (
	"fmt"
	"net/http"
	"os"
	"reflect"

	"github.com/nginxinc/nginx-plus-go-client/client"
)

func must(err error, what string) {
	if err != nil {
		fail("%s: %v", what, err)
	}
}

func fail(format string, args ...interface{}) {
	fmt.Printf(format+"\n", args...)
	os.Exit(1)
}

func names(servers []client.UpstreamServer) []string {
	var result []string
	for _, server := range servers {
		result = append(result, server.Server)
	}
	return result
}

func httpServers(c *client.NginxClient) {
	must(c.CheckIfUpstreamExists("dyn"), "CheckIfUpstreamExists")
	if c.CheckIfUpstreamExists("none") == nil {
		fail("an upstream that is not there exists")
	}
	must(c.AddHTTPServer("dyn", client.UpstreamServer{Server: "127.0.0.2:1"}), "AddHTTPServer")
	if c.AddHTTPServer("dyn", client.UpstreamServer{Server: "127.0.0.2:1"}) == nil {
		fail("a server was added twice")
	}
	must(c.DeleteHTTPServer("dyn", "127.0.0.2:1"), "DeleteHTTPServer")
	if c.DeleteHTTPServer("dyn", "127.0.0.2:1") == nil {
		fail("a server was deleted twice")
	}
	weight, down := 3, true
	wanted := []client.UpstreamServer{{Server: "127.0.0.3:1", Weight: &weight}, {Server: "127.0.0.4:1", Down: &down}}
	added, deleted, updated, err := c.UpdateHTTPServers("dyn", wanted)
	must(err, "UpdateHTTPServers")
	if len(added) != 2 || len(deleted) != 1 || len(updated) != 0 {
		fail("UpdateHTTPServers: added %v, deleted %v, updated %v", added, deleted, updated)
	}
	added, deleted, updated, err = c.UpdateHTTPServers("dyn", wanted)
	must(err, "UpdateHTTPServers again")
	if len(added)+len(deleted)+len(updated) != 0 {
		fail("UpdateHTTPServers again: added %v, deleted %v, updated %v", added, deleted, updated)
	}
	now, err := c.GetHTTPServers("dyn")
	must(err, "GetHTTPServers")
	if !reflect.DeepEqual(names(now), []string{"127.0.0.3:1", "127.0.0.4:1"}) || *now[0].Weight != 3 || !*now[1].Down {
		fail("GetHTTPServers: %+v", now)
	}
	now[1].Down = new(bool)
	must(c.UpdateHTTPServer("dyn", now[1]), "UpdateHTTPServer")
}

// An upstream that has no server in the configuration, and one whose server drains.
func emptyUpstreams(c *client.NginxClient) {
	must(c.AddHTTPServer("empty", client.UpstreamServer{Server: "127.0.0.1:2"}), "AddHTTPServer")
	must(c.AddStreamServer("empty", client.StreamUpstreamServer{Server: "127.0.0.1:2"}), "AddStreamServer")
	web, err := c.GetHTTPServers("empty")
	must(err, "GetHTTPServers")
	flow, err := c.GetStreamServers("empty")
	must(err, "GetStreamServers")
	zero, one, no, ten, none := 0, 1, false, "10s", "0s"
	wanted := client.UpstreamServer{ID: web[0].ID, Server: "127.0.0.1:2", MaxConns: &zero, MaxFails: &one, FailTimeout: ten, SlowStart: none, Backup: &no, Down: &no, Weight: &one}
	if len(web) != 1 || !reflect.DeepEqual(web[0], wanted) {
		fail("defaults: %+v", web)
	}
	of := client.StreamUpstreamServer{ID: flow[0].ID, Server: "127.0.0.1:2", MaxConns: &zero, MaxFails: &one, FailTimeout: ten, SlowStart: none, Backup: &no, Down: &no, Weight: &one}
	if len(flow) != 1 || !reflect.DeepEqual(flow[0], of) {
		fail("defaults of stream: %+v", flow)
	}
	_, deleted, _, err := c.UpdateHTTPServers("empty", nil)
	must(err, "UpdateHTTPServers")
	_, gone, _, err := c.UpdateStreamServers("empty", nil)
	must(err, "UpdateStreamServers")
	if len(deleted) != 1 || len(gone) != 1 {
		fail("servers that went: %v, %v", deleted, gone)
	}
	draining, err := c.GetHTTPServers("draining")
	must(err, "GetHTTPServers")
	if len(draining) != 1 || !draining[0].Drain {
		fail("a server that drains: %+v", draining)
	}
}

func streamServers(c *client.NginxClient) {
	must(c.CheckIfStreamUpstreamExists("flow"), "CheckIfStreamUpstreamExists")
	must(c.AddStreamServer("flow", client.StreamUpstreamServer{Server: "127.0.0.2:1"}), "AddStreamServer")
	added, deleted, _, err := c.UpdateStreamServers("flow", []client.StreamUpstreamServer{{Server: "127.0.0.5:1"}})
	must(err, "UpdateStreamServers")
	if len(added) != 1 || len(deleted) != 2 {
		fail("UpdateStreamServers: added %v, deleted %v", added, deleted)
	}
}

func keyvals(c *client.NginxClient) {
	must(c.AddKeyValPair("pairs", "key", "value"), "AddKeyValPair")
	must(c.ModifyKeyValPair("pairs", "key", "other"), "ModifyKeyValPair")
	pairs, err := c.GetAllKeyValPairs()
	must(err, "GetAllKeyValPairs")
	if pairs["pairs"]["key"] != "other" {
		fail("GetAllKeyValPairs: %v", pairs)
	}
	must(c.DeleteKeyValuePair("pairs", "key"), "DeleteKeyValuePair")
	must(c.AddStreamKeyValPair("flows", "key", "value"), "AddStreamKeyValPair")
	must(c.DeleteStreamKeyValPairs("flows"), "DeleteStreamKeyValPairs")
}

func figures(c *client.NginxClient) {
	stats, err := c.GetStats()
	must(err, "GetStats")
	if stats.ServerZones["site"].Requests == 0 || len(stats.Upstreams["dyn"].Peers) != 2 || len(stats.StreamUpstreams["flow"].Peers) != 1 ||
		stats.HTTPRequests.Total == 0 || stats.Connections.Accepted == 0 || stats.NginxInfo.Version == "" {
		fail("GetStats: %+v", stats)
	}
	if stats.Slabs["dyn"].Pages.Used == 0 || len(stats.Slabs["dyn"].Slots) == 0 || stats.Caches["stored"].MaxSize != 100<<20 ||
		stats.LocationZones["place"].Requests == 0 || stats.HTTPLimitRequests["req"].Passed == 0 ||
		stats.HTTPLimitConnections["conn"].Passed == 0 || stats.StreamLimitConnections["sessions"].Passed == 0 ||
		stats.StreamServerZones["flow"].Connections == 0 || stats.NginxInfo.Generation == 0 || stats.NginxInfo.ProcessID == 0 {
		fail("GetStats: %+v", stats)
	}
}

func main() {
	c, err := client.NewNginxClient(&http.Client{}, os.Args[1])
	must(err, "NewNginxClient")
	emptyUpstreams(c)
	httpServers(c)
	streamServers(c)
	keyvals(c)
	figures(c)
}
