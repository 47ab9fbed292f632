package tui

import (
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"lane/pkg/control"
	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// Everything here is a pure function from a value to text.

// field is a column of the list.
type field uint8

const (
	colTime field = iota
	colService
	colMethod
	colPath
	colStatus
	colMillis
	colRoute
	colFrom
)

// column is a field with its width on this screen.
type column struct {
	field field
	title string
	width int
}

const (
	markWidth  = 2  // the mark and the cursor
	pathLeast  = 16 // below this, another column goes
	pathEnough = 18 // above this, SVC may have what it needs
	svcMost    = 20
	// hostMost is for a host that is no service: 127.0.0.1:40867.
	hostMost = 15
)

// columns lays the list out for a width, with names that are up to names columns
// wide. As it shrinks, it loses FROM, TIME and MS, in this order; then SVC becomes
// narrow. SVC grows to its names out of what PATH can spare.
func columns(width, names int) []column {
	timeW, svcW, fromW := 8, 10, 10
	if width >= 88 {
		timeW, svcW = 12, 12
	}
	if width >= 100 {
		fromW = 15 // an IPv4 address
	}
	if width >= 120 {
		svcW = 18
	}
	all := []column{
		{colTime, "TIME", timeW}, {colService, "SVC", svcW}, {colMethod, "METH", 4}, {colPath, "PATH", 0},
		{colStatus, " ST", 3}, {colMillis, "   MS", 5}, {colRoute, "ROUTE", 7}, {colFrom, "FROM", fromW},
	}
	drop := func(f field) {
		for i, c := range all {
			if c.field == f {
				all = append(all[:i:i], all[i+1:]...)
				return
			}
		}
	}
	path := func() int {
		left := width - markWidth
		for _, c := range all {
			left -= c.width + 1
		}
		return left + 1
	}
	for _, f := range []field{colFrom, colTime, colMillis} {
		if path() < pathLeast {
			drop(f)
		}
	}
	for i := range all {
		if all[i].field == colService && path() < pathLeast {
			all[i].width = 6
		}
		if spare := path() - pathEnough; all[i].field == colService && spare > 0 {
			all[i].width += max(min(min(names, svcMost)-all[i].width, spare), 0)
		}
	}
	for i := range all {
		if all[i].field == colPath {
			all[i].width = max(path(), 1)
		}
	}
	return all
}

// titles is the line above the list.
func titles(cols []column) string {
	var b strings.Builder
	b.WriteString(strings.Repeat(" ", markWidth))
	for i, c := range cols {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(fit(c.title, c.width))
	}
	return strings.TrimRight(b.String(), " ")
}

// cell is a piece of a row with its class.
type cell struct {
	text  string
	class class
}

// row is an exchange as cells that together are as wide as the columns.
func row(e *traffic.Exchange, cols []column, t text, loc *time.Location) []cell {
	mark := traffic.Mark(e)
	cells := make([]cell, 0, len(cols)+1)
	cells = append(cells, cell{string(mark) + " ", markClass(mark)})
	for i, c := range cols {
		s, cl := value(e, c, t, loc), plain
		switch c.field {
		case colStatus:
			s = fitLeft(s, c.width)
			if mark == traffic.MarkError {
				cl = badText
			}
		case colMillis:
			s = fitLeft(s, c.width)
		case colRoute:
			s, cl = fit(s, c.width), routeClass(traffic.Route(e))
		case colTime, colFrom:
			s, cl = fit(s, c.width), faint
		default:
			s = fit(s, c.width)
		}
		if i > 0 {
			s = " " + s
		}
		cells = append(cells, cell{s, cl})
	}
	return cells
}

// value is an exchange's text in one column, not yet cut to its width.
func value(e *traffic.Exchange, c column, t text, loc *time.Location) string {
	switch c.field {
	case colTime:
		if c.width >= 12 {
			return e.Start.In(loc).Format("15:04:05.000")
		}
		return e.Start.In(loc).Format("15:04:05")
	case colService:
		return serviceName(e, c.width, t)
	case colMethod:
		return t.clean(methodWord(e.Method), rawFor(c.width))
	case colPath:
		return t.clean(pathWord(e, rawFor(c.width)), rawFor(c.width))
	case colStatus:
		return statusWord(e)
	case colMillis:
		return millis(e.Took)
	case colRoute:
		return traffic.Route(e)
	case colFrom:
		return t.clean(traffic.From(e), rawFor(c.width))
	}
	return ""
}

// pathWord is the path with its secrets masked; of a long one only what can be
// seen is looked at.
func pathWord(e *traffic.Exchange, most int) string {
	p := traffic.PathOf(e)
	if len(p) > most {
		p = p[:most]
	}
	return traffic.MaskURL(p)
}

// serviceWord is the service, or the host of what is no service, with its port
// if that is not the scheme's own.
func serviceWord(e *traffic.Exchange) string {
	if e.Service != "" {
		return e.Service
	}
	host, port := hostPort(e)
	return host + port
}

// hostPort is the host that was asked, never empty, and its port with the colon,
// empty if it is the one that the scheme says anyway.
func hostPort(e *traffic.Exchange) (host, port string) {
	host = traffic.HostOf(e)
	if i := strings.LastIndexByte(host, ':'); i > 0 && !strings.HasSuffix(host, "]") {
		host, port = host[:i], host[i:]
	}
	usual := ":80"
	if scheme, _, _ := strings.Cut(e.URL, "://"); scheme == "https" || scheme == "wss" || e.Method == "CONNECT" {
		usual = ":443"
	}
	if port == usual || port == ":" {
		port = ""
	}
	if host == "" {
		host = "-"
	}
	return host, port
}

// serviceName is the service, or the host, in at most w columns. Of a long host
// the port stays: a part of a port would be another port.
func serviceName(e *traffic.Exchange, w int, t text) string {
	name := t.clean(serviceWord(e), rawFor(w))
	if e.Service != "" || ansi.StringWidth(name) <= w {
		return cut(name, w)
	}
	host, port := hostPort(e)
	port = t.clean(port, 16)
	if len(port) > len(":65535") || w < len(port)+3 {
		return cut(name, w)
	}
	return cut(t.clean(host, rawFor(w)), w-len(port)) + port
}

// nameWidth is how many columns the list needs for the exchange's name; none for
// a CONNECT, whose path says it as well.
func nameWidth(e *traffic.Exchange, t text) int {
	most := svcMost
	switch {
	case e.Service == "" && e.Method == "CONNECT":
		return 0
	case e.Service == "":
		most = hostMost
	}
	return min(wide(t.clean(serviceWord(e), rawFor(most))), most)
}

// methodWord is at most four letters.
func methodWord(m string) string {
	switch m {
	case "DELETE":
		return "DEL"
	case "OPTIONS":
		return "OPT"
	case "CONNECT":
		return "CONN"
	case "PATCH":
		return "PTCH"
	case "":
		return "-"
	}
	return m
}

// statusWord tells a status from its absence: no response is never a number.
func statusWord(e *traffic.Exchange) string {
	if e.Status == 0 {
		return "-"
	}
	return strconv.Itoa(e.Status)
}

func markClass(m rune) class {
	switch m {
	case traffic.MarkError:
		return badText
	case traffic.MarkFallback:
		return warnText
	case traffic.MarkGuard:
		return guardText
	}
	return plain
}

func routeClass(route string) class {
	switch route {
	case traffic.RouteLane:
		return laneText
	case traffic.RouteFallback, traffic.RouteKilled:
		return warnText
	case traffic.RouteGuard:
		return guardText
	case traffic.RouteError, traffic.RouteLost:
		return badText
	}
	return plain
}

// routeMeans says what a route word means, for the detail and the help.
func routeMeans(route string) string {
	switch route {
	case traffic.RouteLane:
		return "served in the lane"
	case traffic.RouteBase:
		return "baseline, no lane asked for"
	case traffic.RouteFallback:
		return "baseline in place of the lane"
	case traffic.RouteKilled:
		return "baseline, kill switch is on"
	case traffic.RouteGuard:
		return "not let in by the guard"
	case traffic.RouteExternal:
		return "outside the registry"
	case traffic.RouteLost:
		return "the tunnel broke, or is away"
	case traffic.RouteError:
		return "not served: an error of lane"
	}
	return ""
}

// States of the registry, as control.RegistryStatus has them.
const (
	registryFresh       = "fresh"
	registryStale       = "stale"
	registryUnreachable = "unreachable"
	registryUnknown     = "unknown"
)

// registryWord is the registry's state, with its age if it is not fresh.
func registryWord(r control.RegistryStatus, now time.Time) (string, class) {
	since := ""
	if !r.Since.IsZero() {
		since = " " + age(now.Sub(r.Since))
	}
	switch r.State {
	case registryFresh:
		return "consul OK", plain
	case registryStale:
		return "consul STALE" + since, warnText
	case registryUnreachable:
		return "consul DOWN" + since, badText
	}
	return "consul ?", warnText
}

// relayWord is the state of a session's tunnel: the time of a round trip, or since when
// there is none.
func relayWord(r *control.RelayStatus, now time.Time) (string, class) {
	since := ""
	if !r.Since.IsZero() {
		since = " " + age(now.Sub(r.Since))
	}
	switch r.State {
	case control.RelayOK:
		if r.RoundTrip > 0 {
			since = " " + strconv.FormatFloat(max(r.RoundTrip*1000, 1), 'f', 0, 64) + "ms"
		} else {
			since = ""
		}
		return "relay OK" + since, plain
	case control.RelayLost:
		return "relay LOST" + since, badText
	case control.RelayConnecting:
		return "relay CONNECTING" + since, warnText
	case control.RelayReconnecting:
		return "relay RECONNECTING" + since, warnText
	}
	return "relay ?", warnText
}

// lostTunnel reports whether there was a tunnel, and is none now.
func lostTunnel(r *control.RelayStatus) bool {
	return r.State == control.RelayReconnecting || r.State == control.RelayLost
}

// retryWord says when a lost tunnel is tried again.
func retryWord(r *control.RelayStatus, now time.Time) string {
	s := "Trying again"
	if r.Tries > 0 {
		s = "Try " + strconv.Itoa(r.Tries+1)
	}
	if left := r.Next.Sub(now); !r.Next.IsZero() && left > 0 {
		return s + " in " + strconv.Itoa(int((left+time.Second-1)/time.Second)) + "s, R at once."
	}
	if r.Tries > 0 {
		return s + " is under way."
	}
	return s + " now."
}

// within is how long something may still take: empty for what has been.
func within(at, now time.Time) string {
	left := at.Sub(now)
	if left <= 0 {
		return ""
	}
	return " in <= " + strconv.Itoa(int((left+time.Second-1)/time.Second)) + "s"
}

// named are services by their names: by their number, if that is shorter.
func named(services []control.Service, t text) string {
	var names []string
	for _, v := range services {
		names = append(names, t.clean(v.Name, 64))
	}
	if all := strings.Join(names, ", "); len(all) <= 32 {
		return all
	}
	return plural(len(services), "service")
}

// beatsMissed is after how long at most Consul shows the instances of a relay that has
// died as critical.
const beatsMissed = 15 * time.Second

// lostLines are what the loss of a tunnel means: for those who call, for those who were
// being served, and for what is called from here.
func lostLines(s *control.Status, now time.Time, t text) []problem {
	r := s.Relay
	var out []problem
	say := func(label, s, more string) {
		out = append(out, problem{"   " + fit(label, 16) + s, more, badText, true})
	}
	out = append(out, problem{"   " + retryWord(r, now), note(r.Error, t), badText, true})
	if len(s.Services) > 0 && !r.Removed.IsZero() { // an older session does not tell
		// Of a relay that has died nobody says so before its beats are missed.
		is, dead := ": critical"+within(r.Since.Add(beatsMissed), now)+", removed"+within(r.Removed, now), ""
		if r.State == control.RelayLost {
			is = ": removed by the relay, the claim stands"
		}
		if in := within(r.Gone, now); in != "" {
			dead = " (" + in[1:] + " if the relay has died)"
		}
		say("In Consul", named(s.Services, t)+is, dead)
	}
	if r.Cut > 0 {
		say("In flight", pluralOf(uint64(r.Cut), "request")+" cut off", " (502 E_RELAY_LOST if the relay lives)")
	}
	if r.Outgoing {
		say("Outbound proxy", "calls that go through the relay fail too", "")
	} else {
		say("Outbound proxy", "still working", "")
	}
	return out
}

// problem is a line above the list: something that the user should know of now.
type problem struct {
	text  string
	more  string // added where there is room for all of it
	class class
	// detail says that it belongs to the one before, and gives way to another one.
	detail bool
}

// problems are a session's troubles, the worst first.
func problems(s control.Status, now time.Time, t text) []problem {
	var out []problem
	bad := func(s, more string) { out = append(out, problem{"!! " + s, more, badText, false}) }
	lost := s.Relay != nil && lostTunnel(s.Relay)
	if r := s.Relay; lost {
		word, _ := relayWord(r, now)
		bad(word+": the lane's callers get errors until it is back", "")
		out = append(out, lostLines(&s, now, t)...)
	}
	away := s.Registry.State == registryUnreachable
	var unconfirmed, unproved []control.Service
	for _, v := range s.Services {
		switch {
		case v.State == control.StateClaimLost:
			bad(t.clean(v.Name, 64)+": claim lost, no longer exposed from here", note(v.Note, t))
		case lost: // it is what a lost tunnel means
		case v.State == control.StateUnconfirmed && s.Registry.Removed.IsZero(): // else the registry is away
			unconfirmed = append(unconfirmed, v)
		case v.State == control.StateUnproved:
			unproved = append(unproved, v)
		}
	}
	if away || s.Registry.State == registryStale { // the cause of much that follows
		how := " has no leader"
		if away {
			how = " does not answer"
		}
		bad("registry "+t.clean(strings.TrimPrefix(s.Registry.Address, "http://"), 80)+how+"; routing by what was last known", note(s.Registry.Error, t))
		if r := &s.Registry; !r.Removed.IsZero() {
			out = append(out, problem{text: "   Others may see " + named(s.Services, t) + " critical" + within(r.Critical, now) + ", gone" + within(r.Removed, now), more: ", if it answers them", class: badText, detail: true})
		}
		if away && len(unproved) > 0 { // nothing can prove it meanwhile
			out = append(out, problem{text: "   No proof meanwhile that callers reach " + named(unproved, t), class: badText, detail: true})
			unproved = nil
		}
	}
	for _, v := range s.Services {
		if name := t.clean(v.Name, 64); v.State == control.StateLocalClosed && sick(&v) {
			bad(name+": "+t.clean(v.Note, 160)+"; its lane callers get errors", "")
		} else if v.State == control.StateLocalClosed {
			bad(name+": nothing listens on "+t.clean(v.Local, 64)+"; its lane callers get errors", "")
		}
	}
	if len(unconfirmed) > 0 {
		bad(named(unconfirmed, t)+": not confirmed by the registry", commonNote(unconfirmed, t))
	}
	if len(unproved) > 0 {
		bad(named(unproved, t)+": no proof in the last 10 s that callers reach "+one(len(unproved), "it", "them"), commonNote(unproved, t))
	}
	if s.Registry.State == registryUnknown && s.State != control.SessionStarting {
		out = append(out, problem{text: " ! nothing is known of the registry yet: requests wait for its first answer", class: warnText})
	}
	if s.State == control.SessionDraining && s.Waiting != "" {
		out = append(out, problem{text: " ! draining: waits for " + t.clean(s.Waiting, 200), class: warnText})
	}
	if word := s.KilledWord(); word != "" {
		out = append(out, problem{text: " ! killed: " + t.clean(word, 200), class: warnText})
	}
	for _, w := range s.Warnings {
		out = append(out, problem{text: " ! " + t.clean(w, 300), class: warnText})
	}
	return out
}

// commonNote is what services say of their state, if all say the same.
func commonNote(of []control.Service, t text) string {
	for _, v := range of {
		if v.Note != of[0].Note {
			return ""
		}
	}
	return note(of[0].Note, t)
}

// one is a word for one thing, or that for several.
func one(n int, single, several string) string {
	if n == 1 {
		return single
	}
	return several
}

func note(s string, t text) string {
	if s == "" {
		return ""
	}
	return " (" + cut(t.clean(s, 1000), 200) + ")"
}

// sick says that a service's process is there, and its health path says that it is not
// well.
func sick(v *control.Service) bool {
	return v.State == control.StateLocalClosed && v.Note != "" && !strings.HasPrefix(v.Note, "nothing listens on ")
}

// stateWord is a service's state in a word; trouble is in capitals.
func stateWord(s control.Service, t text) (string, class) {
	switch s.State {
	case control.StateUp:
		return "up", plain
	case control.StateLocalClosed:
		if sick(&s) {
			return "NOT HEALTHY", badText
		}
		return "LOCAL PORT CLOSED", badText
	case control.StateClaimLost:
		return "CLAIM LOST", badText
	case control.StateUnconfirmed:
		return "NOT CONFIRMED", badText
	case control.StateUnproved:
		return "NOT PROVED", badText
	case control.StateStarting, control.StateDraining:
		return s.State, warnText
	case "":
		return "?", warnText
	}
	return t.clean(s.State, 80), warnText
}

// brief is an exchange in three lines of at most w columns.
func brief(e *traffic.Exchange, t text, w int) []cell {
	mark := traffic.Mark(e)
	target := ""
	if e.Addr != "" {
		target = " -> " + e.Addr
		if e.Instance != "" {
			target += " (" + e.Instance + ")"
		}
	}
	target = t.clean(target, 200)
	head := string(mark) + " "
	if e.Method != "CONNECT" { // its path is the host
		head += t.clean(serviceWord(e), 100) + " "
	}
	head += t.clean(e.Method, 20) + " "
	room := max(w-len(head)-len(target), w/3)
	head += strings.TrimRight(fit(t.clean(pathWord(e, rawFor(room)), rawFor(room)), room), " ")
	lines := []cell{
		{cut(head+target, w), markClass(mark)},
		{cut("  "+traffic.Route(e)+": "+t.clean(traffic.Why(e), 400), w), plain},
	}
	facts := []string{t.clean(traffic.Outcome(e), 200), span(e.Took), fromWord(e, t),
		"req " + size(e.ReqSize), "resp " + size(e.ResSize)}
	if e.TraceID != "" {
		facts = append(facts, "trace "+t.clean(e.TraceID[:min(len(e.TraceID), 8)], 32))
	}
	return append(lines, cell{cut("  "+strings.Join(facts, "  "), w), faint})
}

// tagIn and tagOut are what a request carried when it came and when it went on.
func tagIn(e *traffic.Exchange) string {
	switch {
	case e.Tag != "" && e.Front == traffic.FrontForward:
		return e.Tag + " (the caller sent it)"
	case e.Tag != "":
		return e.Tag
	case e.Lane != "" && e.Front == traffic.FrontForward:
		return "none (this session's lane put on)"
	}
	return "none"
}

func tagOut(e *traffic.Exchange) string {
	switch {
	case e.Kind == lane.KindExternal:
		return "removed: the host is no service"
	case traffic.Route(e) == traffic.RouteError:
		return "not sent"
	case e.Guard == traffic.GuardRejected || e.Guard == traffic.GuardProbe:
		return "not sent on"
	case e.Guard == traffic.GuardBounced, e.Kind == lane.KindKillSwitch:
		if e.Tag == "" {
			return "none"
		}
		return e.Tag + " (unchanged)"
	case e.Lane != "":
		return string(e.Lane)
	}
	return "none"
}

// timingWord is what the time of an exchange went for, in milliseconds, in w columns if
// that can be.
func timingWord(e *traffic.Exchange, w int) string {
	dns, conn, wait, rest := e.Phases()
	parts := []string{"dns " + phase(dns), "conn " + phase(conn), "ttfb " + phase(wait), "xfer " + phase(rest)}
	if s := strings.Join(parts, " | "); len(s) <= w {
		return s
	}
	return strings.Join(parts, "|")
}

// fromWord says who called and by which door, so that a call of one's own and
// its arrival at one's own guard are told apart.
func fromWord(e *traffic.Exchange, t text) string {
	from := "from " + t.clean(traffic.From(e), 60)
	if e.Front == traffic.FrontForward || e.Front == "" {
		return from
	}
	return from + " at the " + t.clean(string(e.Front), 20)
}

func frontWord(f traffic.Front) string {
	switch f {
	case traffic.FrontForward:
		return "through this session's proxy: you or your process"
	case traffic.FrontGuard:
		return "at the guard"
	case traffic.FrontGateway:
		return "at the gateway"
	case traffic.FrontSidecar:
		return "at a sidecar"
	}
	return traffic.Printable(string(f))
}
