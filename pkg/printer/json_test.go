package printer

import (
	"encoding/json"
	"strings"
	"testing"
)

type record struct {
	Schema string `json:"schema"`
	Text   string `json:"text"`
}

func TestJSON(t *testing.T) {
	r := record{"lane.test/v1", "a&b"}
	s, out := piped()
	if err := JSON(s, r); err != nil {
		t.Fatal(err)
	}
	if want := `{"schema":"lane.test/v1","text":"a&b"}` + "\n"; out.String() != want {
		t.Errorf("off a terminal: %q, want %q", out, want)
	}
	s, out = terminal(80)
	if err := JSON(s, r); err != nil {
		t.Fatal(err)
	}
	if want := "{\n  \"schema\": \"lane.test/v1\",\n  \"text\": \"a&b\"\n}\n"; out.String() != want {
		t.Errorf("on a terminal: %q, want %q", out, want)
	}
	out.Reset()
	if err := JSONLine(s, r); err != nil || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("JSONLine on a terminal: %q, %v", out, err)
	}
}

func TestJSONRefusesARecordWithoutSchema(t *testing.T) {
	s, out := piped()
	for _, v := range []any{record{Text: "x"}, record{Schema: "other/v1"}, []record{{Schema: "lane.x/v1"}}, map[string]string{"a": "b"}} {
		if err := JSON(s, v); err == nil {
			t.Errorf("%#v was printed without a schema", v)
		}
	}
	if out.Len() > 0 {
		t.Errorf("printed %q", out)
	}
}

func TestJSONEscapesControlsAndKeepsTheValue(t *testing.T) {
	for _, text := range []string{"\x1b[2J", "\u009b31m", "\x7f", "\u202eabc", "\u200b", "\U000e0001", "é 愛 😀 ok"} {
		s, out := piped()
		if err := JSON(s, record{"lane.test/v1", text}); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(out.String(), "\x1b\u009b\x7f\u202e\u200b\U000e0001") {
			t.Errorf("a control character is raw in %q", out)
		}
		var back record
		if err := json.Unmarshal(out.Bytes(), &back); err != nil || back.Text != text {
			t.Errorf("%q comes back as %q, %v", text, back.Text, err)
		}
	}
}
