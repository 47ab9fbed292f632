package cmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"syscall"

	"lane/pkg/ca"
	"lane/pkg/child"
	"lane/pkg/config"
	"lane/pkg/consul"
	"lane/pkg/control"
	"lane/pkg/iostreams"
	"lane/pkg/lane"
	"lane/pkg/session"
	"lane/tunnel"
)

// Exit codes of the program. A command that lane runs passes on its own.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnreachable = 3 // registry, relay or session; or: no data
	exitInterrupted = 130
)

// usageError says that the command line is wrong.
type usageError struct{ msg, hint string }

func (e *usageError) Error() string { return e.msg }

func usagef(hint, format string, a ...any) error {
	return &usageError{msg: fmt.Sprintf(format, a...), hint: hint}
}

// noSessionError says that no session of this user runs, or none of the lane.
type noSessionError struct {
	lane, running string
	last          string // how the last one has ended by itself, if it did
	byTag         bool   // LANE_TAG names it, and nothing else
}

func (e *noSessionError) Error() string {
	if e.last != "" {
		return e.none() + "\n" + e.last
	}
	return e.none()
}

func (e *noSessionError) none() string {
	from := ""
	if e.byTag {
		from = " (LANE_TAG)"
	}
	switch {
	case e.running != "":
		return "no session of lane " + e.lane + from + " runs on this machine, only of " + e.running
	case e.lane != "":
		return "no session of lane " + e.lane + from + " runs on this machine"
	}
	return "no session runs on this machine"
}

// exitError ends the program with a code, and says nothing: all was said.
type exitError struct{ code int }

func (e *exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// report prints an error with its way out and returns the exit code: the one
// ladder from errors to codes.
func (f *factory) report(ctx context.Context, err error) int {
	if err == nil {
		return exitOK
	}
	code, hint, quiet := ladder(err)
	if interrupted(ctx, err) {
		// Whoever pressed Ctrl-C knows; what could not be cleaned up is news.
		var left *session.LeftBehindError
		if !errors.As(err, &left) {
			return exitInterrupted
		}
		err = left
	}
	if !quiet {
		said := err.Error()
		if hint != "" {
			said = strings.TrimSuffix(said, "; "+hint) // it stands below
		}
		fmt.Fprintf(f.io.Err, "lane: %s\n", indent(said))
		if hint != "" {
			fmt.Fprintf(f.io.Err, "      %s\n", indent(hint))
		}
	}
	return code
}

func interrupted(ctx context.Context, err error) bool {
	return errors.Is(err, errInterrupted) || errors.Is(err, iostreams.ErrReaderGone) ||
		errors.Is(context.Cause(ctx), errInterrupted) && errors.Is(err, context.Canceled)
}

// indent keeps the lines of a message under each other.
func indent(s string) string { return strings.ReplaceAll(s, "\n", "\n      ") }

// ladder is the exit code of an error, what to do about it, and whether
// everything was said already.
func ladder(err error) (code int, hint string, quiet bool) {
	var (
		exit        *exitError
		dead        *killedError
		exitChild   *child.ExitError
		start       *child.StartError
		usage       *usageError
		name        *lane.NameError
		settings    *config.Invalid
		validation  *consul.ValidationError
		dir         *config.DirError
		none        *noSessionError
		noData      *noDataError
		answered    *answeredError
		unfit       *ca.UnfitError
		place       *placeError
		silent      *control.SilentError
		unreachable *consul.UnreachableError
		leaderless  *consul.NoLeaderError
		denied      *consul.DeniedError
		held        *consul.ClaimHeldError
		lost        *consul.ClaimLostError
		busy        *session.BusyError
		exposed     *session.ExposedError
		notOurs     *session.NotOursError
		way         *session.UnreachableError
		port        *session.PortError
		left        *session.LeftBehindError
		instances   *leftError
		unfitRules  *rulesError
		noRevision  *consul.NoRevisionError
		noProposal  *consul.NoProposalError
		noToken     *noTokenError
		noRelay     *session.RelayError
		refused     *session.RelayRefusedError
		farLeft     *session.FarLeftoverError
		clientCert  *tunnel.ClientCertificateError
		untrusted   *tunnel.CertificateError
		moved       *consul.RulesMovedError
		broken      *consul.BrokenRevisionError
		unread      *consul.UnreadableSwitchError
	)
	switch {
	case errors.As(err, &exit):
		return exit.code, "", true
	case errors.As(err, &dead):
		return dead.code, "what it may have put into the registry its guardian removes; `lane gc` shows what is left", false
	case errors.As(err, &left) && errors.As(err, &denied):
		return exitFailed, "with a token that may write it: `lane up` of this lane on this machine again takes it, and its end removes it", false
	case errors.As(err, &farLeft) && farLeft.Exposed:
		return exitFailed, "until then whoever connects to it gets no further than the relay", false
	case errors.As(err, &farLeft):
		return exitFailed, "the next `lane up` of this lane on this machine by a relay has both back at once", false
	case errors.As(err, &left):
		return exitFailed, "the next `lane up` of this lane on this machine replaces it; Consul removes it by itself about two minutes after it was last seen", false
	case errors.As(err, &exitChild):
		return exitChild.Code, "", true
	case errors.As(err, &start):
		if errors.Is(start.Err, exec.ErrNotFound) || errors.Is(start.Err, fs.ErrNotExist) {
			return 127, "is it installed, and on the PATH?", false
		}
		return 126, unrunHint(start.Err), false
	case errors.As(err, &usage):
		return exitUsage, usage.hint, false
	case errors.As(err, &name):
		return exitUsage, "", false
	case errors.As(err, &settings):
		return exitUsage, settingsHint(settings), false
	case errors.As(err, &dir):
		return exitUsage, "docs/settings.md says what each of the two directories is for; unset, there is a good one", false
	case errors.As(err, &validation):
		return exitUsage, validation.Fix, false
	case errors.As(err, &none):
		lane := none.lane
		if lane == "" {
			lane = "dev-" + "NAME"
		}
		return exitUnreachable, "start one:  lane up " + lane + " -s SERVICE=PORT", false
	case errors.As(err, &silent):
		return exitUnreachable, wake(silent), false
	case errors.As(err, &noData):
		return exitUnreachable, noData.hint, false
	case errors.As(err, &answered):
		return exitFailed, hintOf(answered, ""), false
	case errors.As(err, &unfit):
		return exitFailed, "take it out of whatever trusts it, then:  rm -r " + shellQuote(unfit.Dir) + " && lane ca init", false
	case errors.As(err, &place):
		return exitFailed, "LANE_STATE_DIR names another place for it", false
	case errors.As(err, &unreachable):
		return exitUnreachable, "is Consul running there? `lane registry` starts an embedded one", false
	case errors.As(err, &leaderless):
		return exitUnreachable, "the Consul servers elect one within seconds of each other; ask `consul operator raft list-peers`", false
	case errors.As(err, &denied):
		return exitFailed, "the token (CONSUL_HTTP_TOKEN, or consul.token_file in lane.yaml) needs " + denied.Need, false
	case errors.As(err, &held):
		return exitFailed, "take another lane name, ask them to `lane down " + string(held.Held.Lane) + "`, take it with --takeover, or, if they agree, stand beside them with --join", false
	case errors.As(err, &lost):
		return exitFailed, "", false
	case errors.As(err, &busy) && busy.Joined:
		return exitFailed, fmt.Sprintf("end it with `lane down %s`", busy.Lane), false
	case errors.As(err, &busy):
		return exitFailed, fmt.Sprintf("end it with `lane down %s`, or take it with --takeover", busy.Lane), false
	case errors.As(err, &exposed) && exposed.PID == 0:
		return exitFailed, "if it was stopped, let it go on (fg, or kill -CONT); if it hangs, end it with kill -9", false
	case errors.As(err, &exposed):
		return exitFailed, "Ctrl-C ends it there, or give this one another name", false
	case errors.As(err, &notOurs):
		return exitUsage, "without --advertise the address is taken from which this machine reaches the registry", false
	case errors.As(err, &way):
		return exitFailed, "give the address under which the test environment reaches this machine: --advertise IP", false
	case errors.As(err, &noToken):
		return exitUsage, "set LANE_RELAY_TOKEN, or relay_token_file (LANE_RELAY_TOKEN_FILE) to a file with mode 0600; whoever runs the relay makes it: lane relay token create --user " + "NAME", false
	case errors.As(err, &untrusted):
		return exitFailed, untrustedHint(untrusted), false
	case errors.As(err, &clientCert):
		return exitFailed, "relay_cert_file and relay_key_file name the certificate and its key; whoever runs the relay says which authority has to sign it", false
	case errors.As(err, &refused):
		return exitFailed, refusedHint(refused), false
	case errors.As(err, &noRelay):
		return exitUnreachable, "does `lane relay` run there? A company's proxy is taken from HTTPS_PROXY", false
	case errors.As(err, &unfitRules):
		return exitFailed, "`lane rules lint` shows all that is wrong with it; docs/rules.md says what each means", false
	case errors.As(err, &noRevision):
		return exitUnreachable, "`lane rules history` lists those that there are", false
	case errors.As(err, &noProposal):
		return exitUnreachable, "`lane rules approve` lists those that there are", false
	case errors.As(err, &moved):
		return exitFailed, "look at it with `lane rules history` and `lane rules diff`, and do it again", false
	case errors.As(err, &broken):
		return exitFailed, "push a good document over it: it becomes the next revision", false
	case errors.As(err, &unread):
		return exitFailed, unreadHint(unread), false
	case errors.As(err, &instances):
		return exitFailed, "one that is registered with another agent: once more with that agent's address in CONSUL_HTTP_ADDR", false
	case errors.As(err, &port):
		return exitFailed, "take another address, or port 0 for a free one", false
	}
	return exitFailed, "", false
}

// unrunHint is what to do about a command that is there and cannot be run.
func unrunHint(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "it has to be a program that you may run: chmod +x FILE, or name its interpreter first, as in: sh FILE"
	case errors.Is(err, syscall.ENOEXEC):
		return "it is no program of this machine, and no script that begins with #!: name its interpreter first, as in: sh FILE"
	}
	return ""
}

// settingsHint is what to do about settings that are wrong. What the command line says
// is shown by nothing but its own help.
func settingsHint(e *config.Invalid) string {
	flags, services := true, true
	for _, p := range e.Problems {
		flags = flags && strings.HasPrefix(p.Source, "-")
		services = services && p.Source == "-s"
	}
	switch {
	case services:
		return "say -s NAME=PORT, once for each service"
	case flags:
		return "the command with --help shows what its flags take"
	}
	return "`lane config` shows every setting and where it comes from"
}

// unreadHint is what to do about a switch that cannot be read.
func unreadHint(u *consul.UnreadableSwitchError) string {
	if s := u.Service(); s != "" {
		return "write over it: lane switch " + shellQuote(s) + " GROUP --force, or --clear --force; running routers go on with what they last read"
	}
	return "write over it with --force: `lane kill LANE --force` kills that lane alone, `lane unkill --all --force` none; running routers go on with what they last read, and one that starts kills all lanes"
}

// untrustedHint is what to do about a relay's certificate. It names settings, which every
// verb has, and no flag.
func untrustedHint(e *tunnel.CertificateError) string {
	const pin = "#sha256:… behind the relay's URL, or relay_fingerprint"
	switch {
	case e.Pinned:
		return "`lane relay` prints its fingerprint at its start: if that is this one, pin it (" + pin + ")"
	case e.OtherName() != "":
		return "call the relay by a name that its certificate has, or pin it (" + pin + ")"
	case e.NotNow() != "":
		return "whoever runs the relay gives it a new one, if this machine's clock is right"
	}
	return "if `lane relay` printed this fingerprint, pin it (" + pin + "); relay_ca_file names the roots of an authority of your own"
}

// refusedHint is what to do about a relay's no.
func refusedHint(e *session.RelayRefusedError) string {
	switch e.Code {
	case 401:
		if e.ByCertificate {
			return "relay_cert_file names what was shown, and no token: a new certificate is made by whoever runs its authority, a token by whoever runs the relay (lane relay token create --user NAME)"
		}
		return "a new token is made by whoever runs the relay: lane relay token create --user NAME"
	case 403:
		if e.ByCertificate {
			return "a certificate alone is good for the lanes dev-NAME and dev-NAME-* of its common name; a token says more: lane relay token create --user NAME --lanes … --services …"
		}
		if !e.Claim {
			return "the common name of the certificate in relay_cert_file has to be the user of the token"
		}
		return "a token says which lanes and services are its user's: lane relay token create --lanes … --services …"
	case 423:
		return "leave that service out: calls to it get the baseline. What its --deny names, whoever runs the relay decides"
	case 409:
		if e.TakeOver {
			return "--takeover takes only what is yours: whoever holds it has to end theirs, or, if they agree, stand beside them with --join, or take another lane name"
		}
		return "take another lane name, ask them to end theirs, take it with --takeover if it is your own other machine, or, if they agree, stand beside them with --join"
	case 429:
		if e.Claim {
			return "serve a part of them by another `lane up`, which has a tunnel of its own; whoever runs the relay sets the limit (--max-claims)"
		}
		return "`lane ls` shows your lanes, `lane down LANE` ends one on the machine where it runs, and Ctrl-C ends a `lane expose`"
	}
	return ""
}
