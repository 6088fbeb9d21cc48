package main

import (
	"fmt"
	"slices"
	"sync"
)

// Kinds of violations.
const (
	kindHistory   = "not linearizable"
	kindUndecided = "linearizability undecided"
	kindLost      = "acknowledged commit lost"
	kindDoubled   = "doubled"
	kindSide      = "side write missing"
	kindLeft      = "refused commit left something"
	kindTorn      = "commit half applied"
	kindChain     = "chain of commits broken"
	kindOneself   = "conflict with oneself"
	kindHung      = "hung future"
	kindAnswer    = "wrong answer"
	kindResolve   = "wrong resolution"
)

// violations gathers what should not have happened.
type violations struct {
	mu     sync.Mutex
	counts map[string]int
	texts  []string
	notes  []string
}

// violationTexts bounds how many are told in full. All are counted.
const violationTexts = 40

func (v *violations) add(kind, format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.counts == nil {
		v.counts = make(map[string]int)
	}
	v.counts[kind]++
	// The first few of each kind, so that one kind does not hide the others.
	if len(v.texts) < violationTexts && v.counts[kind] <= 8 {
		v.texts = append(v.texts, kind+": "+fmt.Sprintf(format, args...))
	}
}

// note keeps something worth telling that is no violation.
func (v *violations) note(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.notes) < violationTexts {
		v.notes = append(v.notes, fmt.Sprintf(format, args...))
	}
}

func (v *violations) count(kind string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.counts[kind]
}

func (v *violations) total() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := 0
	for _, c := range v.counts {
		n += c
	}
	return n
}

func (v *violations) list() (texts, notes []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.texts), slices.Clone(v.notes)
}
