package main

import (
	"errors"
	"io"
	"os"
	"slices"
)

// reporter sends results to where they are wanted.
type reporter struct {
	cfg      *config
	settings *settings
	stdout   io.Writer
	table    *table
	groups   [][]*result
	notes    []string
}

func newReporter(cfg *config, b *backend, stdout io.Writer) *reporter {
	r := &reporter{cfg: cfg, settings: newSettings(cfg, b), stdout: stdout}
	r.table = &table{w: stdout, logs: b.logLength != nil}
	if b.engine != "rqlite" && b.engine != "postgres" && hasMode(cfg.modes, "sync") && hasMode(cfg.modes, "sync-pool") {
		r.notes = append(r.notes, b.engine+" has no connection pool, so sync and sync-pool are the same code: their difference is the noise of this run")
	}
	if b.engine == "null" {
		r.notes = append(r.notes, "commit includes the encoding of the execution and the decoding of the next one; commit-prepared is what is left without both (actor: through its mailbox)")
	}
	if !cfg.json {
		r.table.settings(r.settings.lines(cfg.rounds))
	}
	return r
}

func hasMode(modes []*mode, name string) bool {
	return slices.ContainsFunc(modes, func(m *mode) bool { return m.name == name })
}

func (r *reporter) add(results []*result) error {
	r.groups = append(r.groups, results)
	if r.cfg.json {
		return writeJSON(r.stdout, r.settings, results)
	}
	r.table.group(results)
	return nil
}

// finish writes what comes at the end. Its error joins those of the modes that
// failed.
func (r *reporter) finish(failed map[*mode]error) error {
	var errs []error
	for _, m := range r.cfg.modes {
		if err := failed[m]; err != nil {
			errs = append(errs, err)
			r.notes = append(r.notes, "given up: "+err.Error())
		}
	}
	if len(r.groups) == 0 && len(errs) == 0 {
		return usageError{"none of the modes can do any of the operations"}
	}
	if !r.cfg.json {
		r.table.legend(r.cfg.modes, r.notes)
	}
	if r.cfg.html != "" {
		errs = append(errs, writeFile(r.cfg.html, func(w io.Writer) error { return r.html(w) }))
	}
	return errors.Join(errs...)
}

func writeFile(path string, write func(w io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
