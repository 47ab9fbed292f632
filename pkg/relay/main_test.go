package relay_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"lane/pkg/consul/consultest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	consultest.StopReal()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
