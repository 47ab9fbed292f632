package tui

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"lane/pkg/compare"
	"lane/pkg/control"
	"lane/pkg/lane"
	"lane/pkg/traffic"
	"lane/tui/internal/scene"
)

var update = flag.Bool("update", false, "write the golden screens")

// user is a model with somebody at its keys.
type user struct {
	t *testing.T
	m model
}

func newUser(t *testing.T, w, h int, opts ...func(*Options)) *user {
	t.Helper()
	o := Options{Now: scene.Now}
	for _, f := range opts {
		f(&o)
	}
	u := &user{t: t, m: newModel(o)}
	u.send(tea.WindowSizeMsg{Width: w, Height: h})
	return u
}

func attached(o *Options) { o.Attached = true }
func demo(o *Options)     { o.Demo = true }

// proposing is a demo that says what to try.
func proposing(o *Options) {
	demo(o)
	o.Hint = "shop http://127.0.0.1:40001/ in a browser; t shows what to try"
	o.Try = []string{"In a browser", "  http://127.0.0.1:40001/", "", "In another terminal", "  export CONSUL_HTTP_ADDR=http://127.0.0.1:40002"}
}

// unused is a session that has seen no traffic.
func unused(s *control.Status) { s.Counts = control.Counts{} }

// many is a session with more services than fit beside the list.
func many(s *control.Status) {
	for i := range 7 {
		v := s.Services[0]
		v.Name = fmt.Sprintf("service-%d", i+3)
		v.Registered = v.Name
		s.Services = append(s.Services, v)
	}
}

// begun is a session that starts.
func begun(s *control.Status) {
	at := func(ms int) time.Time { return scene.Now().Add(time.Duration(ms) * time.Millisecond) }
	s.State = control.SessionStarting
	s.Services[0].State, s.Services[1].State = control.StateStarting, control.StateStarting
	s.Steps = []control.Step{{Name: "registry", Began: at(-3700), Took: .012}, {Name: "listen", Began: at(-3688), Took: .001},
		{Name: "prove", Began: at(-3687), Took: .001}, {Name: "session", Began: at(-3686), Took: .486}, {Name: "claim", Began: at(-3200)}}
}

// eventful is a session to which something happened.
func eventful(s *control.Status) {
	s.Warnings = []string{"payments stays isolated: batch-01 called it without a tag"}
	s.History = []control.Event{{At: scene.Now().Add(-26 * time.Hour), Text: "up"},
		{At: scene.Now().Add(-40 * time.Minute), Level: control.LevelWarn, Text: "the registry does not answer: requests go by what was known before"},
		{At: scene.Now().Add(-39 * time.Minute), Text: "back: registered again, claim kept"}}
}

// troubled is a session in which nothing is well.
func troubled(s *control.Status) {
	s.Services[0].State, s.Services[0].Note = control.StateUnconfirmed, "registry shows another address"
	s.Services[1].State = control.StateLocalClosed
	s.Registry.State, s.Registry.Since = registryUnreachable, scene.Now().Add(-12*time.Second)
	s.Registry.Error = "connection refused"
	s.Warnings = []string{"orders: no baseline is registered: untagged callers get E_NO_BASELINE"}
	s.Counts.Fallbacks["lane_drained"] = 1204
	s.Counts.Errors = map[string]uint64{"E_LANE_UNHEALTHY": 17, "E_NO_BASELINE": 3, "E_GUARD_REJECTED": 99}
}

// longNames are calls of services and hosts that need room.
func longNames() []traffic.Exchange {
	rows := scene.Exchanges()
	for i, name := range []string{"productpage", "order-service", "recommendation-engine-v2", "users"} {
		rows[i].Service = name
	}
	rows[4].Method, rows[4].URL = "GET", "http://127.0.0.1:40867/v1/rates"
	rows[5].Method, rows[5].URL, rows[5].Service, rows[5].Guard = "GET", "https://api.partner.test:8443/v1/rates", "", ""
	rows[6].Method, rows[6].URL, rows[6].Service = "GET", "https://cdn.test:443/logo.png", ""
	for i := 4; i < len(rows); i++ {
		rows[i].Kind, rows[i].Reason, rows[i].Instance = lane.KindExternal, lane.ReasonExternalHost, ""
	}
	return rows
}

func (u *user) send(msgs ...tea.Msg) *user {
	u.t.Helper()
	for _, msg := range msgs {
		next, _ := u.m.Update(msg)
		u.m = next.(model)
	}
	return u
}

// keys presses keys by name; a word that is no key is typed.
func (u *user) keys(names ...string) *user {
	u.t.Helper()
	special := map[string]tea.KeyType{
		"enter": tea.KeyEnter, "esc": tea.KeyEsc, "up": tea.KeyUp, "down": tea.KeyDown, "home": tea.KeyHome,
		"end": tea.KeyEnd, "left": tea.KeyLeft, "right": tea.KeyRight, "backspace": tea.KeyBackspace,
		"pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "ctrl+c": tea.KeyCtrlC, "ctrl+f": tea.KeyCtrlF,
		"ctrl+b": tea.KeyCtrlB, "tab": tea.KeyTab, "shift+tab": tea.KeyShiftTab, "ctrl+u": tea.KeyCtrlU, "ctrl+w": tea.KeyCtrlW,
		"ctrl+l": tea.KeyCtrlL, "ctrl+z": tea.KeyCtrlZ,
	}
	for _, n := range names {
		switch k, ok := special[n]; {
		case ok:
			u.send(tea.KeyMsg{Type: k})
		case n == "space":
			u.send(tea.KeyMsg{Type: tea.KeySpace, Runes: []rune{' '}})
		default:
			for _, r := range n {
				if r == ' ' {
					u.send(tea.KeyMsg{Type: tea.KeySpace, Runes: []rune{' '}})
				} else {
					u.send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}})
				}
			}
		}
	}
	return u
}

// status sends the scene's status, changed.
func (u *user) status(change ...func(*control.Status)) *user {
	u.t.Helper()
	s := scene.Status()
	for _, f := range change {
		f(&s)
	}
	return u.send(statusMsg{at: scene.Now(), status: s})
}

func (u *user) rows(rows ...traffic.Exchange) *user {
	u.t.Helper()
	return u.send(batchMsg{at: scene.Now(), rows: rows})
}

// running is the usual afternoon.
func (u *user) running(change ...func(*control.Status)) *user {
	u.t.Helper()
	return u.status(change...).rows(scene.Exchanges()...)
}

// screen is what a terminal would show, without attributes and blanks at the
// ends of lines.
func (u *user) screen() string {
	u.t.Helper()
	lines := strings.Split(ansi.Strip(u.m.View()), "\n")
	if len(lines) != u.m.height {
		u.t.Errorf("%d lines on a screen of %d", len(lines), u.m.height)
	}
	for i, l := range lines {
		if ansi.StringWidth(l) > u.m.width {
			u.t.Errorf("line %d is wider than %d: %q", i, u.m.width, l)
		}
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

// goldenState is a state of the UI, of which there are golden screens at each size in
// each way of color.
type goldenState struct {
	name string
	opts []func(*Options)
	do   func(*user)
}

// goldenSizes are the sizes of golden screens.
var goldenSizes = [][2]int{{80, 24}, {100, 30}, {140, 40}}

// goldenStates are all of them; TestEveryStateIsGolden says which there have to be.
func goldenStates() []goldenState {
	refused := errors.New("dial unix /run/user/1000/lane/4711.sock: connect: connection refused")
	gone := func(err error) statusMsg { return statusMsg{at: scene.Now(), status: scene.Status(), err: err} }
	return []goldenState{
		{"connecting", nil, func(u *user) {}},
		{"connecting-fails", nil, func(u *user) { u.send(statusMsg{at: scene.Now(), err: refused}) }},
		{"empty", nil, func(u *user) { u.status(unused) }},
		{"empty-local-closed", nil, func(u *user) {
			u.status(unused, func(s *control.Status) { s.Services[1].State = control.StateLocalClosed })
		}},
		{"empty-no-service", nil, func(u *user) { u.status(unused, func(s *control.Status) { s.Services = nil }) }},
		{"starting", nil, func(u *user) { u.status(unused, begun) }},
		{"starting-relay", nil, func(u *user) {
			u.status(unused, begun, func(s *control.Status) {
				s.Relay = &control.RelayStatus{URL: "wss://relay.test.example", State: control.RelayConnecting, Since: scene.Now().Add(-6 * time.Second),
					Error: "dial tcp 10.2.0.5:443: connect: connection refused", Tries: 3, Next: scene.Now().Add(4 * time.Second)}
				s.Steps = append(s.Steps[:3:3], control.Step{Name: "relay", Began: scene.Now().Add(-6200 * time.Millisecond)})
			})
		}},
		{"running", nil, func(u *user) { u.running() }},
		{"selected", nil, func(u *user) { u.running().keys("N", "k") }},
		{"detail", nil, func(u *user) { u.running().keys("enter") }},
		{"detail-scrolled", nil, func(u *user) { u.running().keys("enter", "ctrl+f") }},
		{"help", nil, func(u *user) { u.running().keys("?") }},
		{"help-attached", []func(*Options){attached}, func(u *user) { u.running().keys("?") }},
		{"help-demo", []func(*Options){demo}, func(u *user) { u.running().keys("?") }},
		{"empty-demo", []func(*Options){demo}, func(u *user) { u.status(unused) }},
		{"running-try", []func(*Options){proposing}, func(u *user) { u.running() }},
		{"try", []func(*Options){proposing}, func(u *user) { u.running().keys("t") }},
		{"services-many", nil, func(u *user) { u.running(many) }},
		{"services", nil, func(u *user) { u.running().keys("S") }},
		{"services-busy", nil, func(u *user) { u.status().rows(scene.Hour()...).keys("S") }},
		{"busy", nil, func(u *user) { u.status().rows(scene.Hour()...) }},
		{"services-troubled", []func(*Options){attached}, func(u *user) {
			u.running(troubled, func(s *control.Status) {
				s.Owner, s.Child, s.Log = "alice@desk-7", "go run .", "/run/user/1000/lane/4711.log"
			}).keys("S")
		}},
		{"services-relay", nil, func(u *user) {
			u.running(func(s *control.Status) {
				s.Relay = &control.RelayStatus{URL: "wss://relay.test.example", Name: "relay-1:7443", State: control.RelayOK, Since: scene.Now().Add(-time.Hour), RoundTrip: .038}
			}).keys("S")
		}},
		{"services-none", nil, func(u *user) { u.running(func(s *control.Status) { s.Services = nil }).keys("S") }},
		{"no-later-problem", nil, func(u *user) { u.running().keys("n") }},
		{"long-names", nil, func(u *user) { u.running().rows(longNames()...) }},
		{"fallbacks", nil, func(u *user) { u.status().rows(scene.Hour()...).keys("b") }},
		{"fallbacks-killed", nil, func(u *user) { u.status(killing).rows(killedRows()...).keys("b") }},
		{"fallbacks-none", nil, func(u *user) { u.status(unused).rows(scene.Exchanges()[0]).keys("b") }},
		{"graph", nil, func(u *user) { u.status().rows(scene.Hour()...).keys("g") }},
		{"graph-none", nil, func(u *user) { u.status(unused).keys("g") }},
		{"log", nil, func(u *user) { u.running(eventful).keys("l") }},
		{"log-troubled", nil, func(u *user) { u.running(troubled).keys("l") }},
		{"detail-request", []func(*Options){doing(&doer{bodies: posted()})}, func(u *user) { u.running(keeping).keys("<").deeds("2") }},
		{"detail-response", []func(*Options){doing(&doer{bodies: posted()})}, func(u *user) { u.running(keeping).keys("<").deeds("3") }},
		{"detail-grpc", []func(*Options){describing(traffic.Messages{Req: []string{`{"user":"ann","apiToken":"t"}`, `{"parts":["a","b"]}`}})}, func(u *user) { u.running(keeping).deeds("enter", "2") }},
		{"detail-grpc-numbers", []func(*Options){describing(traffic.Messages{Note: "its server offers no reflection"})}, func(u *user) { u.running(keeping).deeds("enter", "2") }},
		{"detail-hops", nil, func(u *user) { u.status().rows(scene.Hour()...).keys("/svc:ledger", "enter", "4") }},
		{"detail-curl", nil, func(u *user) { u.running().keys("5") }},
		{"answers", []func(*Options){doing(&doer{bodies: posted(), answer: answering})}, func(u *user) { u.running(keeping).keys("<").deeds("r", "y") }},
		{"asks-to-replay", []func(*Options){doing(&doer{})}, func(u *user) { u.running().keys("<", "r") }},
		{"help-deeds", []func(*Options){doing(&doer{})}, func(u *user) { u.running().keys("?") }},
		{"marked", nil, func(u *user) { u.running().keys("k", "m", "k", "k") }},
		{"paused", nil, func(u *user) { u.running().keys("space").rows(scene.Stream(8, 318)...) }},
		{"filter", nil, func(u *user) { u.running().keys("/svc:orders|users -m:post", "enter") }},
		{"filter-typing", nil, func(u *user) { u.running().keys("/st:>=500") }},
		{"filter-error", nil, func(u *user) { u.running().keys("/svc:orders st:6xx") }},
		{"filter-nothing", nil, func(u *user) { u.running().keys("/svc:ghost", "enter") }},
		{"disconnected", []func(*Options){attached}, func(u *user) {
			u.running().send(gone(refused), statusMsg{at: scene.Now().Add(12 * time.Second), status: scene.Status(), err: refused})
		}},
		{"ended", []func(*Options){attached}, func(u *user) { u.running().send(gone(io.EOF)) }},
		{"local-closed", nil, func(u *user) {
			u.running(func(s *control.Status) { s.Services[1].State = control.StateLocalClosed })
		}},
		{"not-healthy", nil, func(u *user) {
			u.running(func(s *control.Status) {
				s.Services[0].State, s.Services[0].Note = control.StateLocalClosed, "127.0.0.1:8080/health answers 503 Service Unavailable"
			})
		}},
		{"env", nil, func(u *user) { u.running(func(s *control.Status) { s.Env = "dev-3" }) }},
		{"killed-all", nil, func(u *user) {
			u.status(func(s *control.Status) { s.Killed = control.KilledAll }).rows(killedRows()...)
		}},
		{"rare-rows", nil, func(u *user) { u.running(unproved).rows(rareRows()...) }},
		{"detail-error", nil, func(u *user) { u.running().rows(rareRows()[2:3]...).keys("enter") }},
		{"waking", nil, func(u *user) { u.running(func(s *control.Status) { s.State = control.SessionWaking }) }},
		{"draining", nil, func(u *user) {
			u.running(func(s *control.Status) {
				s.State, s.Services[0].State, s.Services[1].State = control.SessionDraining, control.StateDraining, control.StateDraining
			})
		}},
		{"ended-said-why", []func(*Options){attached}, func(u *user) {
			u.running()
			s := scene.Status()
			s.State, s.History = control.SessionEnded, []control.Event{{At: scene.Now(), Text: "ended: bob on desk-9 took its claim over"}}
			u.send(statusMsg{at: scene.Now(), status: s, err: io.EOF})
		}},
		{"killed", nil, func(u *user) { u.running(func(s *control.Status) { s.Killed = control.KilledLane }) }},
		{"claim-lost", nil, func(u *user) {
			u.running(func(s *control.Status) {
				s.Services[0].State, s.Services[0].Note = control.StateClaimLost, "taken over by bob@desk-9"
			})
		}},
		{"many-problems", nil, func(u *user) {
			u.running(troubled)
		}},
		{"registry-stale", nil, func(u *user) {
			u.running(func(s *control.Status) {
				s.Registry.State, s.Registry.Since = registryStale, scene.Now().Add(-42*time.Second)
			})
		}},
		{"relay", nil, func(u *user) {
			u.running(func(s *control.Status) {
				s.Relay = &control.RelayStatus{URL: "wss://relay.test.example", Name: "relay-1:7443", State: control.RelayOK, Since: scene.Now().Add(-time.Hour), RoundTrip: .038}
			})
		}},
		{"relay-env", nil, func(u *user) {
			u.status(func(s *control.Status) {
				s.Env = "dev-3"
				s.Relay = &control.RelayStatus{URL: "wss://relay.test.example", Name: "relay-1:7443", State: control.RelayOK, Since: scene.Now().Add(-72*time.Minute - 40*time.Second), RoundTrip: .038}
			}).rows(scene.Hour()...)
		}},
		{"relay-lost", nil, func(u *user) {
			u.running(func(s *control.Status) {
				s.Relay = &control.RelayStatus{URL: "wss://relay.test.example", Name: "relay-1:7443", State: control.RelayLost, Since: scene.Now().Add(-72 * time.Second), Error: "keepalive timeout",
					Tries: 2, Next: scene.Now().Add(4 * time.Second), Removed: scene.Now().Add(-42 * time.Second), Gone: scene.Now().Add(33 * time.Second)}
			})
		}},
		{"relay-reconnecting", nil, func(u *user) {
			u.running(func(s *control.Status) {
				s.Relay = &control.RelayStatus{URL: "wss://relay.test.example", Name: "relay-1:7443", State: control.RelayReconnecting, Since: scene.Now().Add(-14 * time.Second), Error: "keepalive timeout",
					Tries: 2, Next: scene.Now().Add(4 * time.Second), Cut: 3, Removed: scene.Now().Add(16 * time.Second), Gone: scene.Now().Add(91 * time.Second)}
			}).rows(cutOff())
		}},
		{"relay-lost-and-more", nil, func(u *user) {
			u.running(troubled, func(s *control.Status) {
				s.Services[0].Note = "the relay is reconnecting"
				s.Relay = &control.RelayStatus{URL: "wss://relay.test.example", State: control.RelayReconnecting, Since: scene.Now().Add(-14 * time.Second), Error: "keepalive timeout",
					Tries: 2, Next: scene.Now().Add(4 * time.Second)}
			})
		}},
		{"token-ends", nil, func(u *user) {
			u.running(func(s *control.Status) {
				s.Relay = &control.RelayStatus{URL: "wss://relay.test.example", Name: "relay-1:7443", State: control.RelayOK, Since: scene.Now().Add(-time.Hour), RoundTrip: .038}
				s.Warnings = []string{"the token for the relay ends in 9 m 12 s (2026-03-02T14:11:27Z), and this session with it, unless relay_token_file holds a new one by then"}
			})
		}},
		{"consul-token-ends", nil, func(u *user) {
			u.running(func(s *control.Status) {
				s.Warnings = []string{"the Consul token ends in 9 m 12 s (2026-03-02T14:11:27Z), and this session with it, leaving behind what it has registered: end it before"}
			})
		}},
		{"registry-down", nil, func(u *user) {
			u.running(func(s *control.Status) {
				s.Registry.State, s.Registry.Since = registryUnreachable, scene.Now().Add(-12*time.Second)
				s.Registry.Critical, s.Registry.Removed = s.Registry.Since.Add(15*time.Second), s.Registry.Since.Add(105*time.Second)
				s.Registry.Error = "dial tcp 127.0.0.1:8500: connect: connection refused"
			})
		}},
		{"registry-unknown", nil, func(u *user) {
			u.running(func(s *control.Status) { s.Registry.State, s.Registry.Since = "unknown", time.Time{} })
		}},
		{"sorted", nil, func(u *user) { u.status().rows(scene.Hour()...).keys("s") }},
		{"services-joined", nil, func(u *user) {
			u.running(func(s *control.Status) {
				s.Services[0].Claim = &control.Claim{State: control.ClaimHeld, Since: "2026-03-02T13:20:00Z", From: "bob on desk-9"}
				s.Services[1].Claim = &control.Claim{State: control.ClaimJoined, Holder: "carol on desk-3", Since: "2026-03-01T09:12:00Z"}
			}).keys("S")
		}},
		{"services-claim-lost", nil, func(u *user) {
			u.running(func(s *control.Status) {
				s.Services[0].State, s.Services[0].Note = control.StateClaimLost, "taken over by bob on desk-9"
				s.Services[0].Claim = &control.Claim{State: control.ClaimLost}
			}).keys("S")
		}},
		{"doctor", []func(*Options){doing(&doer{})}, func(u *user) { u.running().deeds("d") }},
		{"news", nil, func(u *user) { u.running(eventful) }},
		{"dropped", nil, func(u *user) {
			u.running().send(batchMsg{at: scene.Now(), rows: scene.Stream(1318, 20), lost: 1310})
		}},
		{"asks-to-copy-secrets", []func(*Options){doing(&doer{})}, func(u *user) { u.running().keys("<", keyOfAct(actCopySecrets)) }},
		{"asks-to-diff", []func(*Options){doing(&doer{})}, func(u *user) { u.running().keys("<", keyOfAct(actAgainst)) }},
		{"asks-to-clear", nil, func(u *user) { u.running().keys(keyOfAct(actClear)) }},
		{"quit-asks", []func(*Options){leaving(nil)}, func(u *user) { u.running().keys("q") }},
		{"quit-asks-bound", nil, func(u *user) { u.running().keys("q") }},
		{"detach-fails", []func(*Options){leaving(errors.New("make the log's directory: mkdir /var/lib/lane/log: read-only file system; LANE_STATE_DIR names another place"))},
			func(u *user) { u.running().deeds("q", "d") }},
	}
}

func TestGolden(t *testing.T) {
	for _, s := range goldenStates() {
		for _, size := range goldenSizes {
			name := fmt.Sprintf("%s-%dx%d", s.name, size[0], size[1])
			t.Run(name, func(t *testing.T) {
				u := newUser(t, size[0], size[1], s.opts...)
				s.do(u)
				golden(t, name, u.screen())
				if hasColour(u.m.View()) {
					t.Error("without color there is color on the screen")
				}
				// With color the words and marks are the same ones.
				c := newUser(t, size[0], size[1], append(s.opts, func(o *Options) { o.Color = true })...)
				s.do(c)
				if got := strings.Replace(c.screen(), "color on ", "color off", 1); got != u.screen() {
					t.Errorf("with color it says something else:\n%s", got)
				}
				golden(t, name+"-color", strings.ReplaceAll(c.m.View(), "\x1b", "^[")+"\n")
				// NO_COLOR leaves bold, faint and reverse.
				golden(t, name+"-nocolor", strings.ReplaceAll(u.m.View(), "\x1b", "^[")+"\n")
			})
		}
	}
	// Where there is no room for more than a line for each exchange.
	for _, s := range goldenStates() {
		t.Run(s.name+"-40x10", func(t *testing.T) {
			u := newUser(t, 40, 10, s.opts...)
			s.do(u)
			golden(t, s.name+"-40x10", u.screen())
		})
	}
	t.Run("too-small", func(t *testing.T) {
		golden(t, "too-small-40x10", newUser(t, 40, 10).running().screen())
		for word, color := range map[string]bool{"-color": true, "-nocolor": false} {
			raw := newUser(t, 40, 10, func(o *Options) { o.Color = color }).running().m.View()
			golden(t, "too-small-40x10"+word, strings.ReplaceAll(raw, "\x1b", "^[")+"\n")
		}
	})
	t.Run("smallest", func(t *testing.T) {
		golden(t, "running-60x15", newUser(t, 60, 15).running().screen())
	})
	t.Run("narrow side", func(t *testing.T) {
		golden(t, "running-110x30", newUser(t, 110, 30).running().screen())
	})
	// With characters beyond ASCII: what the terminal gets.
	t.Run("utf8", func(t *testing.T) {
		u := newUser(t, 80, 24, func(o *Options) { o.Color, o.UTF8 = true, true }).running()
		golden(t, "running-80x24-utf8", strings.ReplaceAll(u.m.View(), "\x1b", "^[")+"\n")
	})
}

// killing is a session under a kill switch that has been on for a while.
func killing(s *control.Status) { s.Killed, s.Counts.Killed = control.KilledLane, 2 }

// unproved is a session of which the last proof is a while ago.
func unproved(s *control.Status) {
	s.Services[0].State, s.Services[0].Note = control.StateUnproved, "10.2.0.77:40117 does not answer"
}

// rareRows are exchanges that a user meets on a bad day.
func rareRows() []traffic.Exchange {
	rows := scene.Stream(8, 5)
	for i := range rows {
		e := &rows[i]
		e.Front, e.From, e.Method, e.URL, e.Proto, e.Service, e.Instance = traffic.FrontForward, "127.0.0.1:53110", "GET", "http://users/v1/users/7", "HTTP/1.1", "users", "users-7f9c"
		e.Guard, e.Tag, e.Lane, e.Addr, e.Status, e.Took = "", "", "dev-alice", "10.2.0.14:8080", 200, 31*time.Millisecond
	}
	rows[0].Kind, rows[0].Reason = lane.KindDegraded, lane.ReasonLaneUnhealthy
	rows[1].Kind, rows[1].Reason, rows[1].Instance = lane.KindStatic, lane.ReasonRegistryUnreachable, ""
	rows[2].Kind, rows[2].Reason, rows[2].Code, rows[2].Status, rows[2].Addr, rows[2].Instance = lane.KindError, lane.ReasonNoBaseline, lane.CodeNoBaseline, 503, "", ""
	for i, g := range []string{traffic.GuardRejected, traffic.GuardProbe} {
		e := &rows[3+i]
		e.Front, e.From, e.Guard, e.Service, e.URL, e.Instance, e.Addr = traffic.FrontGuard, "10.2.0.44:40222", g, "orders", "http://orders/healthz", "", ""
	}
	rows[3].Tag, rows[3].Lane, rows[3].Code, rows[3].Status = "dev-bob", "", "E_GUARD_REJECTED", 421
	return rows
}

// killedRows are the usual ones, and two that the switch has sent to the baseline.
func killedRows() []traffic.Exchange {
	rows := scene.Exchanges()
	for i := range 2 {
		e := scene.Exchanges()[6]
		e.Seq, e.Kind, e.Reason = uint64(len(rows))+1, lane.KindKillSwitch, lane.ReasonKillSwitch
		e.Start = e.Start.Add(time.Duration(i+1) * 100 * time.Millisecond)
		rows = append(rows, e)
	}
	return rows
}

// keeping is a session that keeps bodies.
func keeping(s *control.Status) { s.Bodies = true }

// posted are the bodies of the scene's first exchange.
func posted() map[uint64][2]string {
	return map[uint64][2]string{1: {`{"items":[{"sku":9,"count":2}],"coupon":null,"card":{"token":"tok_1","last4":"4242"}}`,
		`{"id":"o-1182","state":"new","items":[{"sku":9,"price":12.5}],"total":25}`}}
}

// answering answers with something else.
func answering(string) Answer {
	return Answer{Took: 38 * time.Millisecond, Decision: "LANE_MATCH; lane=dev-alice", Answer: compare.Answer{Status: 201,
		Header: http.Header{"Content-Type": {"application/json"}, "Date": {"Mon, 02 Mar 2026 14:02:15 GMT"}},
		Body:   []byte(`{"id":"o-1183","state":"new","items":[{"sku":9,"price":11.9}],"total":23.8}`)}}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("..", "testdata", "golden", "tui", name+".txt")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; go test ./tui -update writes it", err)
	}
	if got != string(want) {
		t.Errorf("%s differs; if it is meant to, go test ./tui -update and read the difference\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}
