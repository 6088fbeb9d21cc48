// Package faults holds nothing but tests: end-to-end fault tests, with the
// asynchronous store on top of real engines. What happens to a cluster happens to
// an in-process one on an in-memory network, in fake time, so that each test holds
// the time limits of its case exactly; what happens to a file happens to a real
// one, between real processes.
//
// docs/bug-cases.md says which failure each test is about.
package faults
