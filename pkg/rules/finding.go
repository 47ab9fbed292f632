package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Code names a kind of finding.
type Code string

// What makes a document unreadable as a Set. Nothing of it is loaded.
const (
	CodeSyntax            Code = "SYNTAX"
	CodeUnknownKey        Code = "UNKNOWN_KEY"
	CodeDuplicateKey      Code = "DUPLICATE_KEY"
	CodeMissing           Code = "MISSING"
	CodeBadValue          Code = "BAD_VALUE"
	CodeBadKey            Code = "BAD_KEY"
	CodeReservedLane      Code = "RESERVED_LANE"
	CodeDuplicateID       Code = "DUPLICATE_ID"
	CodeDuplicatePriority Code = "DUPLICATE_PRIORITY"
)

// What Lint finds in a document that can be loaded.
const (
	CodeShadowedRule        Code = "SHADOWED_RULE"
	CodeUnknownEntry        Code = "UNKNOWN_ENTRY"
	CodeUnreachableRule     Code = "UNREACHABLE_RULE"
	CodeMatchesEverything   Code = "MATCHES_EVERYTHING"
	CodeSourceOrder         Code = "SOURCE_ORDER"
	CodeUnprotectedIdentity Code = "UNPROTECTED_IDENTITY"
)

// Codes are all of them, in the order of the documentation.
func Codes() []Code {
	return []Code{CodeSyntax, CodeUnknownKey, CodeDuplicateKey, CodeMissing, CodeBadValue, CodeBadKey, CodeReservedLane,
		CodeDuplicateID, CodeDuplicatePriority, CodeShadowedRule, CodeUnknownEntry, CodeUnreachableRule,
		CodeMatchesEverything, CodeSourceOrder, CodeUnprotectedIdentity}
}

// Finding is one thing that is wrong with a document, or probably not meant.
type Finding struct {
	Code Code
	// Warning findings may be meant so; the others are mistakes.
	Warning bool
	Rule    string // the rule's ID; empty when it is about none
	Line    int    // in the document; 0 when it has no place
	Words   string
}

func (f Finding) String() string {
	var b strings.Builder
	if f.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", f.Line)
	}
	if f.Rule != "" {
		b.WriteString("rule " + f.Rule + ": ")
	}
	return b.String() + f.Words + " (" + string(f.Code) + ")"
}

// InvalidError is everything that keeps a document from being loaded, in one go.
type InvalidError struct{ Findings []Finding }

func (e *InvalidError) Error() string {
	if len(e.Findings) == 1 {
		return "rules: " + e.Findings[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "rules: %d problems", len(e.Findings))
	for _, f := range e.Findings {
		b.WriteString("\n  " + f.String())
	}
	return b.String()
}

// byLine puts findings into the order of the document.
func byLine(f []Finding) []Finding {
	slices.SortStableFunc(f, func(a, b Finding) int { return cmp.Compare(a.Line, b.Line) })
	return f
}
