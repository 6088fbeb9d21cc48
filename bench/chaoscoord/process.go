package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// process is a worker that runs.
type process struct {
	cmd  *exec.Cmd
	in   io.Closer
	done chan struct{} // closed when it has ended and all that it told is noted
}

// spawn starts a worker: this program again. life counts those in its place before.
func (r *run) spawn(i, life int) (*process, error) {
	j := r.job
	j.Seed = r.cfg.seed + uint64(1000*i+life)
	j.Identity = fmt.Sprintf("w%d.%d", i, life)
	spec, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), workerEnv+"="+string(spec))
	p.cmd.Stderr = r.cfg.progress
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var e event
			if json.Unmarshal(lines.Bytes(), &e) == nil { // else it was killed in the middle of the line
				r.mu.Lock()
				r.events = append(r.events, told{i, e})
				r.mu.Unlock()
			}
		}
		_ = p.cmd.Wait()
	}()
	return p, nil
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// end lets a worker finish what it does, for a while.
func (p *process) end() {
	_ = p.in.Close()
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		p.kill()
	}
}
