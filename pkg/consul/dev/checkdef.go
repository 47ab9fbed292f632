package dev

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
)

// checkType is how a check is made, as a client defines it for the agent. The
// second spelling of a field is the one of Consul's configuration files.
type checkType struct {
	CheckID string
	Name    string
	Status  string
	Notes   string

	HTTP             string
	Header           map[string][]string
	Method           string
	Body             string
	DisableRedirects bool
	TCP              string
	TLSServerName    string
	TLSSkipVerify    bool
	Interval         duration
	Timeout          duration
	TTL              duration

	SuccessBeforePassing   int
	FailuresBeforeWarning  int
	FailuresBeforeCritical int

	DeregisterCriticalServiceAfter      duration
	DeregisterCriticalServiceAfterSnake duration `json:"deregister_critical_service_after"`
	TLSServerNameSnake                  string   `json:"tls_server_name"`
	TLSSkipVerifySnake                  bool     `json:"tls_skip_verify"`
	OutputMaxSize                       int

	// Kinds of checks that this registry does not make.
	Args              []string
	ScriptArgs        []string
	DockerContainerID string
	Shell             string
	UDP               string
	GRPC              string
	GRPCUseTLS        bool
	H2PING            string
	H2PingUseTLS      bool
	OSService         string
	AliasNode         string
	AliasService      string
}

func (t *checkType) unify() {
	if t.DeregisterCriticalServiceAfter == 0 {
		t.DeregisterCriticalServiceAfter = t.DeregisterCriticalServiceAfterSnake
	}
	if t.TLSServerName == "" {
		t.TLSServerName = t.TLSServerNameSnake
	}
	t.TLSSkipVerify = t.TLSSkipVerify || t.TLSSkipVerifySnake
}

// empty: a client that has no check sends an empty one.
func (t *checkType) empty() bool {
	return t.CheckID == "" && t.Name == "" && t.Status == "" && t.Notes == "" && t.HTTP == "" && t.TCP == "" &&
		t.Interval == 0 && t.Timeout == 0 && t.TTL == 0 && t.DeregisterCriticalServiceAfter == 0 && !t.foreign()
}

func (t *checkType) foreign() bool {
	return len(t.Args) > 0 || len(t.ScriptArgs) > 0 || t.UDP != "" || t.GRPC != "" || t.H2PING != "" ||
		t.OSService != "" || t.AliasNode != "" || t.AliasService != "" || t.DockerContainerID != ""
}

func (t *checkType) validate() error {
	probes := t.HTTP != "" || t.TCP != ""
	switch {
	case t.foreign():
		return errors.New("this registry makes TTL, HTTP and TCP checks only")
	case t.Interval > 0 && t.TTL > 0:
		return say("Interval and TTL cannot both be specified")
	case probes && t.Interval <= 0:
		return say("Interval must be > 0 for Script, HTTP, H2PING, TCP, UDP or OSService checks")
	case !probes && t.TTL <= 0:
		return say("TTL must be > 0 for TTL checks")
	case t.OutputMaxSize < 0:
		return say("MaxOutputMaxSize must be positive")
	case t.FailuresBeforeWarning > t.FailuresBeforeCritical:
		return say("FailuresBeforeWarning can't be higher than FailuresBeforeCritical")
	}
	return nil
}

func (t *checkType) kind() string {
	switch {
	case t.HTTP != "" && t.Interval > 0:
		return "http"
	case t.TTL > 0:
		return "ttl"
	case t.TCP != "" && t.Interval > 0:
		return "tcp"
	}
	return ""
}

// minReapAfter is the least time that a check may be critical before its
// service is removed; Consul raises smaller ones to it.
const minReapAfter = time.Minute

func (t *checkType) reapAfter() time.Duration {
	after := time.Duration(t.DeregisterCriticalServiceAfter)
	if after <= 0 {
		return 0
	}
	return max(after, minReapAfter)
}

func validStatus(s string) bool { return s == passing || s == warning || s == critical }

const (
	metaMaxPairs = 64
	metaMaxKey   = 128
	metaMaxValue = 512
)

var metaKey = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9_-]+$`) })

func validateMeta(meta map[string]string) error {
	if len(meta) > metaMaxPairs {
		return say("Node metadata cannot contain more than %d key/value pairs", metaMaxPairs)
	}
	for key, value := range meta {
		var why string
		switch {
		case key == "":
			why = "Key cannot be blank"
		case !metaKey().MatchString(key):
			why = "Key contains invalid characters"
		case len(key) > metaMaxKey:
			why = fmt.Sprintf("Key is too long (limit: %d characters)", metaMaxKey)
		case strings.HasPrefix(key, "consul-"):
			why = "Key prefix 'consul-' is reserved for internal use"
		case len(value) > metaMaxValue:
			why = fmt.Sprintf("Value is too long (limit: %d characters)", metaMaxValue)
		default:
			continue
		}
		return say("Couldn't load metadata pair ('%s', '%s'): %s", key, value, why)
	}
	return nil
}

func validateWeights(w *weights) error {
	switch {
	case w == nil:
		return nil
	case w.Passing < 1:
		return failf(http.StatusBadRequest, "Invalid Weights: Passing must be greater than 0")
	case w.Warning < 0:
		return failf(http.StatusBadRequest, "Invalid Weights: Warning must be greater or equal than 0")
	case w.Passing > 65535 || w.Warning > 65535:
		return failf(http.StatusBadRequest, "Invalid Weights: DNS Weight must be between 0 and 65535")
	}
	return nil
}

func anyAddress(s string) bool { return s == "0.0.0.0" || s == "::" || s == "[::]" }
