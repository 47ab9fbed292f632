package dev_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lane/pkg/consul/consultest"
)

var update = flag.Bool("update", false, "write the recordings from the real Consul")

// A recording is a conversation with the real Consul 1.14.11, kept in testdata:
// requests, and the answers with what differs by nature (indexes, random ids,
// ports) masked. The embedded registry must answer the same, and so must the
// real one, so that a recording cannot go stale unseen.
type request struct {
	method, path, body string
	headers            []string
}

func get(path string) request       { return request{method: http.MethodGet, path: path} }
func put(path, body string) request { return request{method: http.MethodPut, path: path, body: body} }
func del(path string) request       { return request{method: http.MethodDelete, path: path} }
func (r request) with(headers ...string) request {
	r.headers = headers
	return r
}

// record runs a conversation. "{name}" in a request is the id that the answer
// before the request "{name}=..." gave.
func record(t *testing.T, name string, conversation []request) {
	t.Helper()
	t.Parallel() // each has a Consul of its own
	golden := filepath.Join("testdata", "recorded", name+".txt")
	t.Run("embedded", func(t *testing.T) {
		if *update {
			return // the real one writes first
		}
		compare(t, golden, talk(t, consultest.Embedded(t), conversation))
	})
	t.Run("consul", func(t *testing.T) {
		got := talk(t, consultest.Start(t, consultest.Needed(t)), conversation)
		if *update {
			must(t, os.MkdirAll(filepath.Dir(golden), 0o755))
			must(t, os.WriteFile(golden, []byte(strings.Join(got, separator)+"\n"), 0o644))
		}
		compare(t, golden, early(t, golden, got))
	})
}

func compare(t *testing.T, golden string, got []string) {
	t.Helper()
	data, err := os.ReadFile(golden)
	must(t, err)
	want := strings.Split(strings.TrimSpace(string(data)), separator)
	if len(got) != len(want) {
		t.Errorf("%d answers, want %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("answer %d differs (-want +got):\n%s", i+1, cmp.Diff(strings.Split(want[i], "\n"), strings.Split(got[i], "\n")))
		}
	}
}

// early sets right what the real Consul says of a cached read whose answer came before the
// cache looked: that it was there already.
func early(t *testing.T, golden string, got []string) []string {
	t.Helper()
	data, err := os.ReadFile(golden)
	must(t, err)
	for i, want := range strings.Split(strings.TrimSpace(string(data)), separator) {
		if i < len(got) && strings.Contains(want, "X-Cache: MISS") {
			got[i] = strings.Replace(strings.Replace(got[i], "X-Cache: HIT", "X-Cache: MISS", 1), "Age: 0\n", "", 1)
		}
	}
	return got
}

const separator = "\n\n"

func talk(t *testing.T, addr string, conversation []request) []string {
	t.Helper()
	w := newWorld(t, addr)
	ids := map[string]string{}
	var out []string
	for _, r := range conversation {
		keep := ""
		if name, rest, ok := strings.Cut(r.path, "="); ok && strings.HasPrefix(name, "{") {
			keep, r.path = name, rest
		}
		shown := r
		for name, id := range ids {
			r.path, r.body = strings.ReplaceAll(r.path, name, id), strings.ReplaceAll(r.body, name, id)
		}
		answer := w.http(r.method, r.path, r.body, r.headers...)
		if keep != "" {
			var created struct{ ID string }
			must(t, json.Unmarshal([]byte(answer.body), &created))
			ids[keep] = created.ID
		}
		answer.body = unordered(r.path, answer.body)
		out = append(out, render(shown, answer))
	}
	return out
}

// render is one question and its answer as text.
func render(q request, a reply) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", q.method, q.path)
	for i := 0; i < len(q.headers); i += 2 {
		fmt.Fprintf(&b, " (%s: %s)", q.headers[i], q.headers[i+1])
	}
	b.WriteString("\n")
	if q.body != "" {
		body := q.body
		if len(body) > 400 {
			body = fmt.Sprintf("%s... (%d bytes)", body[:100], len(body))
		}
		fmt.Fprintf(&b, "%s\n", body)
	}
	fmt.Fprintf(&b, "-> %d\n", a.code)
	var names []string
	for name := range a.header {
		if strings.HasPrefix(name, "X-") || slices.Contains([]string{"Age", "Allow", "Content-Type", "Content-Security-Policy"}, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		value := a.header.Get(name)
		if name == "X-Consul-Index" && value != "1" {
			value = "N"
		}
		if name == "X-Consul-Contenthash" {
			value = "HASH"
		}
		fmt.Fprintf(&b, "%s: %s\n", name, value)
	}
	return strings.TrimSpace(b.String() + masked(a.body))
}

// unordered are the answers that the real one gives in the order of a map: the
// agent's own health, and the merged tags of services.
func unordered(path, body string) string {
	var v any
	if !strings.HasPrefix(path, "/v1/agent/health/") && !strings.HasPrefix(path, "/v1/catalog/services") ||
		json.Unmarshal([]byte(body), &v) != nil {
		return body
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
			slices.SortFunc(v, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		case map[string]any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(v)
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

var uuid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

var modifyIndex = regexp.MustCompile(`current modify index \d+`)

func masked(body string) string {
	body = uuid.ReplaceAllString(body, "UUID")
	body = modifyIndex.ReplaceAllString(body, "current modify index N")
	var v any
	if json.Unmarshal([]byte(body), &v) != nil {
		return strings.TrimSpace(body)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(maskValue("", v)); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(b.String())
}

// maskValue masks numbers that count the registry's writes and the ports that
// the real one was given.
func maskValue(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = maskValue(k, e)
		}
	case []any:
		for i, e := range v {
			v[i] = maskValue(key, e)
		}
	case float64:
		ports := (key == "Port" || key == "ServicePort") && v > 8085
		if ports || ((key == "CreateIndex" || key == "ModifyIndex") && v > 0) {
			return "N"
		}
	case string:
		if key == "ContentHash" {
			return "HASH"
		}
		if len(v) > 200 {
			return fmt.Sprintf("%s (%d bytes) %s", v[:50], len(v), v[len(v)-50:])
		}
	}
	return v
}
