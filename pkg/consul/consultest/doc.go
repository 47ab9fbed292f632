// Package consultest gives tests a registry: the embedded one, the real Consul
// of the environment, or each of them in turn. It never looks for a Consul on
// its own: the path of the real binary comes from LANE_TEST_CONSUL, and a path
// that leads nowhere fails the test.
package consultest
