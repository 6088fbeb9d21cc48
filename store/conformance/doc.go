// Package conformance holds nothing but tests: the suite of package storetest on
// every engine of this module. It is a package of its own because it imports the
// engines, which package store must not.
package conformance
