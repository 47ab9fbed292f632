package har

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"lane/pkg/traffic"
)

// harSchema is the JSON schema of HAR 1.2 that har-validator and many others use
// (github.com/ahmadnassri/node-har-schema 2.0.0, whose licence stands beside it), with
// the formats of dates, URLs and addresses looked at too.
func harSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	files, err := filepath.Glob(filepath.Join("testdata", "har-schema", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	const base = "https://schema.test/"
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		// Its names are relative, and hold only where it is read from.
		doc.(map[string]any)["$id"] = base + filepath.Base(f)
		if err := c.AddResource(base+filepath.Base(f), doc); err != nil {
			t.Fatal(err)
		}
	}
	s, err := c.Compile(base + "har.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// archived is an archive as another program reads it.
func archived(t *testing.T) any {
	t.Helper()
	b, err := Encode(append(rows(), packedRows(t)...), Options{Version: "1.0", Comment: "lane dev-alice\x1b", Marked: map[uint64]bool{2: true}})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestSchemaOfHAR(t *testing.T) {
	schema := harSchema(t)
	if err := schema.Validate(archived(t)); err != nil {
		t.Errorf("%#v", err)
	}
	// The twins: what is no HAR is found, wherever it is.
	for what, spoil := range map[string]func(log map[string]any){
		"version":     func(log map[string]any) { delete(log, "version") },
		"cookies":     func(log map[string]any) { delete(entryOf(log, 0)["request"].(map[string]any), "cookies") },
		"uri":         func(log map[string]any) { entryOf(log, 1)["request"].(map[string]any)["url"] = "/api/orders" },
		"date-time":   func(log map[string]any) { entryOf(log, 1)["startedDateTime"] = "yesterday" },
		"status":      func(log map[string]any) { entryOf(log, 3)["response"].(map[string]any)["status"] = "200" },
		"ipv4":        func(log map[string]any) { entryOf(log, 0)["serverIPAddress"] = "orders" },
		"mimeType":    func(log map[string]any) { delete(content0(log), "mimeType") },
		"compression": func(log map[string]any) { content0(log)["compression"] = "7" },
		"value": func(log map[string]any) {
			entryOf(log, 0)["request"].(map[string]any)["headers"] = []any{map[string]any{"name": "a"}}
		},
	} {
		doc := archived(t)
		spoil(doc.(map[string]any)["log"].(map[string]any))
		if err := schema.Validate(doc); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("without a good %s: %v", what, err)
		}
	}
}

func entryOf(log map[string]any, i int) map[string]any {
	return log["entries"].([]any)[i].(map[string]any)
}

func content0(log map[string]any) map[string]any {
	return entryOf(log, 0)["response"].(map[string]any)["content"].(map[string]any)
}

var long = strings.Repeat("abc ", 100)

// packedRows are an exchange with compressed bodies, and one whose compression nobody
// knows.
func packedRows(t *testing.T) []traffic.Exchange {
	t.Helper()
	gz := func(s string) *traffic.Body {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := io.WriteString(w, s); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return &traffic.Body{Bytes: b.Bytes()}
	}
	e := traffic.Exchange{Start: time.Date(2026, 3, 2, 14, 2, 15, 0, time.UTC), Method: "POST", URL: "http://orders/", Proto: "HTTP/1.1", Status: 200,
		ReqHeader: traffic.HeadText("Content-Type: application/x-www-form-urlencoded\r\nContent-Encoding: gzip\r\n"),
		ResHeader: traffic.HeadText("Content-Type: application/json\r\nContent-Encoding: gzip\r\n"),
		ReqBody:   gz("a=b&token=hunter2"), ResBody: gz(`{"password":"hunter2","a":"` + long + `"}`)}
	e.ReqSize, e.ResSize = int64(len(e.ReqBody.Bytes)), int64(len(e.ResBody.Bytes))
	other := e
	other.ResHeader, other.ResBody = traffic.HeadText("Content-Encoding: compress\r\n"), &traffic.Body{Bytes: []byte("\x1f\x9d" + `{"password":"hunter2"}`)}
	return []traffic.Exchange{e, other}
}

func TestCompressedBodies(t *testing.T) {
	b, err := Encode(packedRows(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), "hunter2") {
		t.Errorf("a secret is in it:\n%s", b)
	}
	var a archive
	if err := json.Unmarshal(b, &a); err != nil {
		t.Fatal(err)
	}
	read, unread := a.Log.Entries[0], a.Log.Entries[1]
	if c := read.Response.Content; c.Text != `{"password":"***","a":"`+long+`"}` || c.Size != int64(len(c.Text)+len("hunter2")-len("***")) || c.Compression != c.Size-read.Response.BodySize || c.Comment != "was compressed: gzip" {
		t.Errorf("%+v", c)
	}
	if p := read.Request.PostData; p.Text != "a=b&token=***" || p.Comment != "was compressed: gzip" {
		t.Errorf("%+v", p)
	}
	if c := unread.Response.Content; c.Text != "" || !strings.HasPrefix(c.Comment, "left out: it is compressed (compress)") {
		t.Errorf("%+v", c)
	}
}
