package consul_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lane/pkg/consul"
)

// A token that cannot be sent is refused by its source's name, and never shown.
func TestATokenThatNoRequestCanBear(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("hunter2\nmore\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cfg       consul.Config
		env, says string
	}{
		{consul.Config{}, "hunter2\nb", "CONSUL_HTTP_TOKEN: the token has a control character (a line end?) as character 8"},
		{consul.Config{TokenFile: file}, "", "token file " + file},
		{consul.Config{Token: "hunter2\x00"}, "", "token: "},
	} {
		c.cfg.Getenv = func(k string) string { return map[string]string{"CONSUL_HTTP_TOKEN": c.env}[k] }
		_, err := consul.Open(c.cfg)
		var bad *consul.ValidationError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: %v", c.says, err)
		}
	}
	if err := os.WriteFile(file, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := consul.Open(consul.Config{TokenFile: file, Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
}
