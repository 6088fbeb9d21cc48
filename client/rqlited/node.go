package rqlited

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// node is one rqlited process, which may be started many times.
type node struct {
	id, http, raft string
	dir, log       string
	args           []string

	mu     sync.Mutex
	cmd    *exec.Cmd     // nil when not running
	exited chan struct{} // closed when cmd has ended
}

// start starts the process. Its output goes to the end of the node's log.
func (n *node) start(binary string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.runningLocked() {
		return fmt.Errorf("rqlited: node %s is running", n.id)
	}
	out, err := os.OpenFile(n.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("rqlited: %w", err)
	}
	cmd := exec.Command(binary, n.args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = childAttr()
	started, exited := make(chan error, 1), make(chan struct{})
	go func() {
		// A child that is to die with its parent dies with the parent's thread,
		// so the thread that starts it has to stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(exited)
		defer out.Close()
		err := cmd.Start()
		started <- err
		if err == nil {
			// A node that is killed ends with an error, which says nothing new.
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("rqlited: starting node %s: %w", n.id, err)
	}
	n.cmd, n.exited = cmd, exited
	return nil
}

func (n *node) runningLocked() bool {
	if n.cmd == nil {
		return false
	}
	select {
	case <-n.exited:
		n.cmd = nil
		return false
	default:
		return true
	}
}

// running reports whether the process runs, paused or not.
func (n *node) running() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.runningLocked()
}

// signal sends a signal and returns the channel that closes when the process
// has ended; nil if it does not run.
func (n *node) signal(sig os.Signal) (<-chan struct{}, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.runningLocked() {
		return nil, nil
	}
	if err := n.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return nil, fmt.Errorf("rqlited: node %s: %w", n.id, err)
	}
	return n.exited, nil
}

func (n *node) kill() error {
	exited, err := n.signal(os.Kill)
	if err != nil || exited == nil {
		return err
	}
	<-exited
	return nil
}

func (n *node) terminate(limit time.Duration) error {
	// A paused process would not see the signal.
	if err := n.resume(); err != nil {
		return err
	}
	exited, err := n.signal(sigTerminate)
	if err != nil || exited == nil {
		return err
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-exited:
		return nil
	case <-timer.C:
		return errors.Join(fmt.Errorf("rqlited: node %s did not end in %v", n.id, limit), n.kill())
	}
}

func (n *node) pause() error {
	_, err := n.signal(sigPause)
	return err
}

func (n *node) resume() error {
	_, err := n.signal(sigResume)
	return err
}

// logTail returns the last lines of the log.
func (n *node) logTail() string {
	b, err := os.ReadFile(n.log)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) > 15 {
		lines = lines[len(lines)-15:]
	}
	return strings.Join(lines, "\n")
}
