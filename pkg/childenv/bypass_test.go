package childenv

import (
	"slices"
	"strings"
	"testing"
)

func TestBypassed(t *testing.T) {
	for _, c := range []struct{ noProxy, hosts, want string }{
		{"", "order-service inventory", ""},
		{"order-service", "order-service inventory", "order-service"},
		{"Order-Service:80", "order-service:8080 order-services", "order-service:8080"},
		{".svc.cluster.local", "a.b.svc.cluster.local svc.cluster.local xsvc.cluster.local", "a.b.svc.cluster.local"},
		{"*.consul", "a.service.consul", "a.service.consul"},
		{"corp.example", "corp.example a.corp.example notcorp.example", "corp.example a.corp.example"},
		{"10.0.0.0/8,fd00::/8", "10.1.2.3:80 11.0.0.1 [fd00::1]:80 order-service", "10.1.2.3:80 [fd00::1]:80"},
		{"*", "order-service", ""}, // is not passed on to a child
	} {
		vars := Vars([]string{"NO_PROXY=" + c.noProxy}, session)
		if got := Bypassed(vars, strings.Fields(c.hosts)); !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%s: %q, want %q", c.noProxy, got, c.want)
		}
	}
	// The loopback and the registry are meant to be direct; nothing else is.
	if got := Bypassed(Vars(nil, session), []string{"localhost", "127.0.0.1:5432", "consul.test", "a"}); len(got) != 3 {
		t.Errorf("%q", got)
	}
	if got := Bypassed(nil, []string{"a"}); got != nil {
		t.Errorf("without variables: %q", got)
	}
}
