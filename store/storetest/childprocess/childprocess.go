// Package childprocess lets a test run tasks in processes of their own: it starts
// the test's binary again, whose TestMain sees from the environment that it is one.
package childprocess

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
)

// Process is a child of a test. It is told what to do by lines and answers by lines.
type Process struct {
	// Cmd is the command, which was started.
	Cmd *exec.Cmd
	// In is its standard input; closing it asks the child to end.
	In io.WriteCloser
	// Out reads the lines of its standard output.
	Out *bufio.Scanner
}

// Start starts a child with env added to its environment, in the form KEY=value.
// When the test ends, its input is closed, and the test waits for its end.
func Start(t testing.TB, env ...string) *Process {
	t.Helper()
	p := &Process{Cmd: exec.Command(os.Args[0])}
	p.Cmd.Env = append(os.Environ(), env...)
	p.Cmd.Stderr = os.Stderr
	var err error
	if p.In, err = p.Cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := p.Cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.Out = bufio.NewScanner(stdout)
	if err := p.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.In.Close()
		_ = p.Cmd.Wait()
	})
	return p
}

// Send tells the child a line. What became of it shows in the answer.
func (p *Process) Send(line string) { fmt.Fprintln(p.In, line) }

// Receive waits for the child's next line. If there is none, it returns a text that
// begins with "error:".
func (p *Process) Receive() string {
	if !p.Out.Scan() {
		return "error: the process ended"
	}
	return p.Out.Text()
}
