package detect_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lane/pkg/config"
	"lane/pkg/detect"
	"lane/pkg/lane"
)

func load(t *testing.T, text []byte) (*config.Settings, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, config.FileName), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return config.Load(config.Options{Dir: dir, Home: dir})
}

// TestTheFirstFileIsRead: what is written has to be what lane reads, and so has
// every example in a comment, or the first thing that a person does fails.
func TestTheFirstFileIsRead(t *testing.T) {
	text := detect.Render(detect.First{Service: "order-service", Port: 8081, Health: "/a b's", Preset: "polaris:team", ServiceNote: "From go.mod.\nListening now.", PresetNote: "why"})
	s, err := load(t, text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if v, ok := s.Service("order-service"); !ok || v != (config.Service{Name: "order-service", Port: 8081, Health: "/a b's"}) || s.Preset != "polaris:team" {
		t.Errorf("%+v", s)
	}
	for _, note := range []string{"# From go.mod.\n# Listening now.\n", "# why\n"} {
		if !strings.Contains(string(text), note) {
			t.Errorf("no %q in\n%s", note, text)
		}
	}

	text = detect.Render(detect.First{})
	if s, err = load(t, text); err != nil || len(s.Services) != 0 || s.Preset != "lane" {
		t.Errorf("an empty one: %+v, %v", s, err)
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		rest, isComment := strings.CutPrefix(line, "# ")
		word, _, isKey := strings.Cut(strings.TrimSpace(rest), ":")
		if isComment && isKey && !strings.ContainsAny(word, " ") && (strings.HasPrefix(rest, " ") || slices.ContainsFunc(config.Keys(), func(k string) bool { return k == word || strings.HasPrefix(k, word+".") })) {
			line = rest
		}
		all = append(all, line)
	}
	s, err = load(t, []byte(strings.Join(all, "")))
	if err != nil || len(s.Services) != 1 || len(s.Colored) != 1 || s.Consul.Datacenter != "dc1" || len(s.Hosts) != 1 || len(s.Accept) != 2 || len(s.Probes) != 1 {
		t.Errorf("the examples: %+v, %v\n%s", s, err, strings.Join(all, ""))
	}
}

func TestListening(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	open := l.Addr().(*net.TCPAddr).Port
	refused := errors.New("refused")
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr != l.Addr().String() && addr != "[::1]:2" {
			return nil, refused
		}
		return (&net.Dialer{}).DialContext(ctx, network, l.Addr().String())
	}
	if got := detect.Listening(t.Context(), []int{1, open, 2, 3}, dial); !slices.Equal(got, []int{open, 2}) {
		t.Errorf("%v, want %v", got, []int{open, 2})
	}
	if got := detect.Listening(t.Context(), []int{1}, dial); got != nil {
		t.Errorf("nothing listens, and %v is found", got)
	}
	// Who never answers holds nobody up for long, and is no listener.
	stuck := func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	if got := detect.Listening(t.Context(), []int{1, 2, 3}, stuck); got != nil {
		t.Errorf("%v", got)
	}
}

// TestEachPresetIsOne: a suggestion that lane refuses is worse than none.
func TestEachPresetIsOne(t *testing.T) {
	for _, p := range detect.Presets() {
		if _, err := lane.Preset(p); err != nil {
			t.Error(err)
		}
	}
	if len(detect.Presets()) < 5 {
		t.Errorf("only %q", detect.Presets())
	}
}
