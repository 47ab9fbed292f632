package proxy

import (
	"net/http"

	"lane/pkg/lane"
)

// readTag takes the tag out of the request as it came: head, cookie, query.
func (c *call) readTag(h http.Header) {
	c.got = c.t.carriers.ReadRequest(h, string(c.target))
	c.ex.Tag = c.got.Raw
}

// hostTag reads the tag in front of the service's name in the host, the weakest
// of the carriers.
func (c *call) hostTag(service string) {
	label := c.t.names.Label(c.asked, service)
	if label == "" {
		return
	}
	c.got = c.t.carriers.Join(c.got, label)
	c.ex.Tag = c.got.Raw
}

// cutTag takes the tag out of the target that is sent.
func (c *call) cutTag() { c.target = target(c.t.carriers.CutQuery(string(c.target))) }

// writeTag writes the tag into a head that has none: it came by another carrier,
// and what is called next passes on headers at best.
func (t *Transport) writeTag(h http.Header, tag string) []string {
	if t.carriers.Read(h).Kind != lane.TagNone {
		return nil
	}
	return t.carriers.Write(h, tag)
}

// heal writes the tag of a request that goes into a process where its header has none: it
// came by another carrier, and the process may pass on that header alone.
func (t *Transport) heal(h http.Header, tag string) []string {
	if t.carriers.InHeader(h) {
		return nil
	}
	return t.carriers.Write(h, tag)
}

// Label is what stands before a service's name in LABEL.SERVICE.localhost, or ""
// for any other host. A host that the settings name is taken as they say.
func (n *Names) Label(hostport, service string) string {
	host, _ := splitHost(hostport)
	label, named, ok := lane.CutHost(host)
	if !ok || service == "" || named != service {
		return ""
	}
	if _, set := n.hosts[host]; set {
		return ""
	}
	return label
}

// labelled is the service of LABEL.SERVICE.localhost.
func labelled(host string) (string, bool) {
	_, service, ok := lane.CutHost(host)
	if service = named(service); !ok || service == "" {
		return "", false
	}
	return service, true
}
