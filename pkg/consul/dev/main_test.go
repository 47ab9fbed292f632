package dev_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"lane/pkg/consul/consultest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	consultest.StopReal()
	if err := goleak.Find(); err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Exit(code)
}
