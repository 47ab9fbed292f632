package session

import (
	"testing"
	"time"
)

func TestSlept(t *testing.T) {
	for _, c := range []struct{ wall, monotonic, want time.Duration }{
		{time.Second, time.Second, 0},
		{2 * time.Second, time.Second, 0},
		{9*time.Second + time.Second, time.Second, 0},
		{10*time.Second + time.Second, time.Second, 10 * time.Second},
		{2*time.Hour + 3*time.Minute + time.Second, time.Second, 2*time.Hour + 3*time.Minute},
		{-time.Hour, time.Second, 0},            // somebody has set the clock back
		{30 * time.Second, 30 * time.Second, 0}, // stopped, and let go again: the machine was awake
		{40 * time.Second, 29 * time.Second, 11 * time.Second},
	} {
		if got := slept(c.wall, c.monotonic); got != c.want {
			t.Errorf("slept(%v, %v) = %v, want %v", c.wall, c.monotonic, got, c.want)
		}
	}
}

func TestSpell(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 400 * time.Millisecond: "0 s", 4 * time.Second: "4 s", time.Minute: "1 m 00 s", 61 * time.Second: "1 m 01 s",
		2*time.Hour + 3*time.Minute + 4*time.Second: "2 h 03 m", 100 * time.Hour: "100 h 00 m",
	} {
		if got := spell(d); got != want {
			t.Errorf("spell(%v) = %q, want %q", d, got, want)
		}
	}
}
