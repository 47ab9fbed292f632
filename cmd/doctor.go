package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lane/pkg/config"
	"lane/pkg/doctor"
	"lane/pkg/printer"

	"github.com/spf13/cobra"
)

type doctorOptions struct {
	lane     string
	services []string
	policy   string
	mode     string
	probe    string
	json     bool
}

// The limits of a diagnosis: a stage of checks, of which there are two, and all of it.
const (
	doctorStage = 6 * time.Second
	doctorLimit = 15 * time.Second
)

// errDoctorLimit is the cause of a diagnosis that took too long.
var errDoctorLimit = errors.New("no answer in time")

// doctorResult is the JSON form of `lane doctor`.
type doctorResult struct {
	Schema   string            `json:"schema"`
	Result   doctor.Level      `json:"result"` // the worst of the findings
	Findings []doctor.Finding  `json:"findings"`
	Settings []printer.Setting `json:"settings"` // all of them; null if they are invalid
}

func newDoctorCmd(f *factory) *cobra.Command {
	o := &doctorOptions{}
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Look at all that lane depends on: what is wrong, and what to do about it",
		Long: `Look at all that lane depends on, and say what is wrong, where, and what to do: the
settings, the registry and what the token may do there, the relay and the token for it,
the advertised address, the ports, the sessions of this machine and what dead ones have left, the proxy variables,
callers that know no lanes, and whether something on the way takes the tag off.

It needs nothing that works, takes at most 15 s, and changes nothing anywhere. It
sends requests to the registry and to this machine alone, and makes one tunnel to the
relay of the settings, if there is one, which claims nothing; --probe URL sends one
tagged GET to that URL. It exits 0 if nothing is wrong, 1 if something is, 3 if the registry
cannot be reached. docs/doctor.md has each check.

With --policy it asks nobody, and prints the least policy for Consul's access control
in HCL: direct, for a session that registers itself (--lane, -s and --mode say what);
relayed, for one whose services a relay registers; relay, gateway, sidecar for those.`,
		Example: `  lane doctor
  lane doctor --lane dev-alice -s order-service=8080
  lane doctor --probe http://gateway.test.example/headers
  lane doctor --policy --lane dev-alice -s order-service | consul acl policy create -name lane-dev-alice -rules -`,
		Args: takes(),
		RunE: func(c *cobra.Command, _ []string) error {
			if o.policy != "" {
				return printLeastPolicy(f, o)
			}
			if o.mode != "" {
				return usagef("lane doctor --policy --mode MODE", "--mode goes with --policy")
			}
			return runDoctor(c.Context(), f, o)
		},
	}
	fl := c.Flags()
	addFlag(c, &o.lane, "lane", "", aLane, "the lane that it is about")
	addFlags(c, &o.services, "service,s", checked("NAME=PORT", checkService), "service and port of its local process")
	addFlag(c, &o.probe, "probe", "", aProbe, "send one tagged GET to it, and see whether the tag arrives")
	addFlag(c, &o.policy, "policy", "", one("WHOM", policyKinds()...), "print the least policy for a session (direct), or for relayed, relay, gateway, sidecar")
	fl.Lookup("policy").NoOptDefVal = policyDirect
	addFlag(c, &o.mode, "mode", "", one("MODE", config.Shared, config.Isolated, config.Auto), "with --policy: how it is registered, shared, isolated or auto")
	jsonFlag(c, &o.json)
	_ = c.RegisterFlagCompletionFunc("lane", f.completeLanes)
	_ = c.RegisterFlagCompletionFunc("service", f.completeServices)
	_ = c.RegisterFlagCompletionFunc("probe", f.completeURL)
	_ = c.RegisterFlagCompletionFunc("policy", cobra.FixedCompletions(policyKinds(), cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions([]string{config.Shared, config.Isolated, config.Auto}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func runDoctor(ctx context.Context, f *factory, o *doctorOptions) error {
	d := newDiagnosis(f, o)
	defer d.close()
	all := d.run(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, errInterrupted) {
		return cause
	}
	worst := doctor.Worst(all)
	if err := f.printDiagnosis(o, d, worst, all); err != nil {
		return err
	}
	switch worst {
	case doctor.Wrong:
		return &exitError{code: exitFailed}
	case doctor.Away:
		return &exitError{code: exitUnreachable}
	}
	return nil
}

// run makes all checks.
func (d *diagnosis) run(ctx context.Context) []doctor.Finding {
	ctx, cancel := context.WithTimeoutCause(ctx, doctorLimit, errDoctorLimit)
	defer cancel()
	first := doctor.Run(ctx, doctorStage, d.checkSettings, d.checkRegistry, d.checkPorts, d.checkSessions, d.checkProxies, d.checkRelay)
	second := doctor.Run(ctx, doctorStage, d.checkRights, d.checkAgents, d.checkClock, d.checkAddress, d.checkLeftovers, d.checkSwitches, d.checkClaims, d.checkConsumers, d.checkProbe)
	return append(first, second...)
}

func (f *factory) printDiagnosis(o *doctorOptions, d *diagnosis, worst doctor.Level, all []doctor.Finding) error {
	if o.json {
		res := doctorResult{Schema: "lane.doctor/v1", Result: worst, Findings: all}
		if d.invalid == nil {
			res.Settings = printer.NewSettings(d.settings.Entries()).Settings
		}
		return f.printJSON(res)
	}
	if err := printer.PrintFindings(f.io, all); err != nil {
		return err
	}
	sum := fmt.Sprintf("%d wrong, ", doctor.Count(all, doctor.Wrong)+doctor.Count(all, doctor.Away))
	_, err := fmt.Fprintf(f.io.Err, "%s%s, %d ok\n", sum, count(doctor.Count(all, doctor.Note), "note"), doctor.Count(all, doctor.Well))
	return err
}
