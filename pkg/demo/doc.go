// Package demo is a whole test environment on one machine: an embedded registry,
// a bookshop of four baseline services that call each other through the engine,
// and two developers' lanes; with a tour that checks each of its claims, and
// traffic to look at.
//
//	productpage --> details
//	     |
//	     +--------> reviews  ----> ratings
//	     :                   :
//	     dev-alice: reviews  dev-bob: ratings
//
// It never reads settings or the environment, never uses a fixed port, and never
// leaves anything behind: all of it ends before Run returns.
package demo
