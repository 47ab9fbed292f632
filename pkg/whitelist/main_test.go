package whitelist

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// A second after Close, go-redis's own wait between two dials has ended too.
func TestMain(m *testing.M) {
	code := m.Run()
	err := goleak.Find()
	for limit := time.Now().Add(time.Minute); err != nil && time.Now().Before(limit); {
		err = goleak.Find()
	}
	if err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
