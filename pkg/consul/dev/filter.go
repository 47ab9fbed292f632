package dev

import (
	"fmt"

	"github.com/hashicorp/go-bexpr"
)

// filterer keeps what an expression of Consul's filter language selects. The
// language is the one of go-bexpr 0.1.2, which Consul 1.14.11 has: a key that a
// map lacks is unequal to every value, and yet "matches" every pattern.
type filterer struct{ f *bexpr.Filter }

// newFilter reads an expression over the elements of a list or map like kind.
func newFilter(expression string, kind any) (filterer, error) {
	f, err := bexpr.CreateFilter(expression, nil, kind)
	if err != nil {
		return filterer{}, serverError{err} // 500, with its own text
	}
	return filterer{f}, nil
}

// filtered is the list or map with what the expression selects.
func filtered[T any](f filterer, all T) (T, error) {
	out, err := f.f.Execute(all)
	if err != nil {
		return all, err
	}
	kept, ok := out.(T)
	if !ok {
		return all, fmt.Errorf("filter gave %T for %T", out, all)
	}
	return kept, nil
}
