package cmd

import (
	"fmt"
	"io"
	"strings"

	"lane/pkg/control"
	"lane/pkg/traffic"
)

// banner says what a session has registered and how to use it.
func (f *factory) banner(to io.Writer, st *control.Status) error {
	var b strings.Builder
	line := func(what, format string, a ...any) {
		fmt.Fprintf(&b, "  %-9s %s\n", what, traffic.Printable(fmt.Sprintf(format, a...)))
	}
	fmt.Fprintf(&b, "lane %s is up\n", st.Lane)
	if st.Killed != "" {
		line("killed", "%s", st.KilledWord())
	}
	try := "SERVICE"
	for _, v := range st.Services {
		try = v.Name
		line("service", "%s -> %s   registered as %s at %s (%s)%s", v.Name, v.Local, v.Registered, v.Guard, v.Mode, note(v, st.Child != ""))
	}
	if len(st.Services) == 0 {
		line("service", "none: it only colors your outgoing calls (-s NAME=PORT puts a process into the lane)")
	} else {
		line("data", "databases and queues are shared: what you write there, everybody sees")
	}
	for _, w := range st.Warnings {
		line("warning", "%s", w)
	}
	line("registry", "%s", st.Registry.Address)
	if st.Relay != nil {
		out := ""
		if st.Relay.Outgoing {
			out = ", calls to services too"
		}
		line("relay", "%s%s", st.Relay.URL, out)
	}
	line("proxy", "%s   (lane env prints the exports)", st.Proxy)
	if len(st.Mitm) > 0 {
		line("opens", "the TLS of %s, with the CA %s", strings.Join(st.Mitm, ", "), st.CA)
	}
	if st.Log != "" {
		line("log", "%s", st.Log)
	}
	if st.Child != "" {
		line("command", "%s", st.Child)
	}
	line("try", "lane curl --lane %s http://%s/", st.Lane, try)
	line("end", "lane down %s", st.Lane)
	_, err := io.WriteString(to, b.String())
	return err
}

func note(v control.Service, child bool) string {
	switch {
	case v.State == control.StateUp && v.Note != "":
		return ", " + v.Note
	case v.State == control.StateUp:
		return ""
	case v.State == control.StateLocalClosed && child:
		return ", when the command listens there" // it has only just started
	}
	return ": " + v.State
}
