package consultest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// given are the ports that this process has had so far.
var given sync.Map

// Listen opens a port of 127.0.0.1 that nobody of this process has had, below those
// that the system gives out by itself: one that is closed, or not open yet, must not be
// somebody's else meanwhile.
func Listen() (net.Listener, error) {
	err := errors.New("all were given")
	for range 1000 {
		port := 10000 + rand.IntN(20000)
		if _, had := given.LoadOrStore(port, true); had {
			continue
		}
		var l net.Listener
		if l, err = new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:"+strconv.Itoa(port)); err == nil {
			return l, nil
		}
	}
	return nil, fmt.Errorf("no free port between 10000 and 30000: %w", err)
}

// keptPorts are ports for an agent, which may leave them and come back.
func keptPorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := Listen()
		if err != nil {
			return nil, err
		}
		at, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			return nil, errors.Join(fmt.Errorf("no TCP address: %v", l.Addr()), l.Close())
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
		ports = append(ports, at.Port)
	}
	return ports, nil
}
