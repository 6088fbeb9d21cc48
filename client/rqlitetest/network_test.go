package rqlitetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// connected returns both ends of a connection on the in-memory network.
func connected(t *testing.T) (client, server net.Conn) {
	t.Helper()
	network := newMemNetwork()
	l, err := network.listen("a.test:1")
	if err != nil {
		t.Fatal(err)
	}
	client, err = network.dial(t.Context(), "a.test:1")
	if err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		server.Close()
		l.Close()
	})
	return client, server
}

func TestConnTransfersMoreThanItBuffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := connected(t)
		sent := bytes.Repeat([]byte("0123456789abcdef"), pipeCapacity/4)
		go func() {
			a.Write(sent)
			a.Close()
		}()
		got, err := io.ReadAll(b)
		if err != nil || sha256.Sum256(got) != sha256.Sum256(sent) {
			t.Errorf("%d bytes of %d, error %v", len(got), len(sent), err)
		}
	})
}

func TestConnDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := connected(t)
		start := time.Now()
		check := func(what string, err error, after time.Duration) {
			t.Helper()
			if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != after {
				t.Errorf("%s: error %v after %v, want a deadline after %v", what, err, time.Since(start), after)
			}
			var ne net.Error
			if !errors.As(err, &ne) || !ne.Timeout() {
				t.Errorf("%s: error %v is no timeout", what, err)
			}
			start = time.Now()
		}
		buf := make([]byte, 1)
		a.SetReadDeadline(time.Now().Add(time.Second))
		_, err := a.Read(buf)
		check("read", err, time.Second)
		_, err = a.Read(buf)
		check("read past the deadline", err, 0)
		// A deadline set while reading counts, and may be moved.
		a.SetReadDeadline(time.Time{})
		go func() {
			a.SetReadDeadline(time.Now().Add(time.Second))
			a.SetReadDeadline(time.Now().Add(2 * time.Second))
		}()
		_, err = a.Read(buf)
		check("moved deadline", err, 2*time.Second)
		a.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := a.Write(make([]byte, 2*pipeCapacity))
		check("write", err, time.Second)
		if n != pipeCapacity {
			t.Errorf("%d bytes written, want %d", n, pipeCapacity)
		}
		// Cleared, the connection works again.
		a.SetDeadline(time.Time{})
		go b.Write([]byte{7})
		if _, err := a.Read(buf); err != nil || buf[0] != 7 {
			t.Errorf("read %v, error %v", buf, err)
		}
	})
}

func TestConnCloseAndReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := connected(t)
		b.Write([]byte("last words"))
		b.Close()
		got, err := io.ReadAll(a)
		if string(got) != "last words" || err != nil {
			t.Errorf("after close: %q, error %v", got, err)
		}
		if _, err := a.Write([]byte("x")); err != nil {
			t.Errorf("first write after the peer closed: %v", err)
		}
		if _, err := a.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("second write: %v, want EPIPE", err)
		}
		if _, err := b.Read(nil); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read on a closed connection: %v", err)
		}

		a, b = connected(t)
		b.Write([]byte("lost"))
		b.(*memConn).Reset()
		if _, err := a.Read(make([]byte, 9)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("after a reset: %v, want ECONNRESET", err)
		}

		// Close wakes a reader and a writer that wait.
		a, _ = connected(t)
		errs := make(chan error, 2)
		go func() {
			_, err := a.Read(make([]byte, 1))
			errs <- err
		}()
		go func() {
			_, err := a.Write(make([]byte, 2*pipeCapacity))
			errs <- err
		}()
		synctest.Wait()
		a.Close()
		for range 2 {
			if err := <-errs; !errors.Is(err, net.ErrClosed) {
				t.Errorf("waiting when closed: %v, want net.ErrClosed", err)
			}
		}
	})
}

func TestListenerClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newMemNetwork()
		l, err := network.listen("a.test:1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := network.listen("a.test:1"); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("listening twice: %v", err)
		}
		waiting, err := network.dial(t.Context(), "a.test:1")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if _, err := waiting.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a connection nobody accepted: %v, want ECONNRESET", err)
		}
		if _, err := network.dial(t.Context(), "a.test:1"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dialling a closed address: %v, want ECONNREFUSED", err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept: %v", err)
		}
	})
}

func TestDialUnknownHost(t *testing.T) {
	c := Start(t, InMemoryNetwork())
	var dns *net.DNSError
	if _, err := c.DialContext(context.Background(), "tcp", "elsewhere.example:80"); !errors.As(err, &dns) || !dns.IsNotFound {
		t.Errorf("error %v, want one of DNS", err)
	}
}
