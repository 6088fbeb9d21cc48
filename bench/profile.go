package main

import (
	"errors"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
)

// startProfile starts a CPU profile, if path is not empty. Call stop once.
func startProfile(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}

func writeMemProfile(path string) error {
	if path == "" {
		return nil
	}
	runtime.GC()
	return writeFile(path, func(w io.Writer) error { return pprof.Lookup("allocs").WriteTo(w, 0) })
}
