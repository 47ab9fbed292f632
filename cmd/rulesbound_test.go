package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lane/pkg/consul"
	"lane/pkg/rules"
)

// What lint lets through by its length, the registry keeps, and what the docs say
// is what both do.
func TestOneBoundForADocument(t *testing.T) {
	if rules.MaxDocument != consul.MaxRules {
		t.Errorf("a document has %d bytes, and the registry keeps %d", rules.MaxDocument, consul.MaxRules)
	}
	page, err := os.ReadFile("../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	if rules.MaxDocument != 256<<10 || !strings.Contains(string(page), "256 KiB") {
		t.Error("docs/rules.md names another bound")
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	for _, c := range []struct {
		bytes, code int
	}{{rules.MaxDocument, exitOK}, {rules.MaxDocument + 1, exitFailed}} {
		const begin = "rules: [] #"
		if err := os.WriteFile(file, []byte(begin+strings.Repeat("x", c.bytes-len(begin))), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, errOut := offline(t, "rules", "lint", file)
		if code != c.code || (code != exitOK) != strings.Contains(out+errOut, "256 KiB are the most") {
			t.Errorf("%d bytes: exit code %d, %q, %q", c.bytes, code, out, errOut)
		}
	}
}
